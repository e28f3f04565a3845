# shellcheck shell=bash
# A delegation to write, and another client that asks for the attributes of the file: the server asks the holder for size and change
# (CB_GETATTR, RFC 8881 section 20.1). The other client is the server itself, which mounts its own export over TCP.
on_server '
    yes "delegated" | head -c 5000 > /export/data/ga
    chmod 666 /export/data/ga
    mkdir -p /mnt/self
    mount -t nfs4 -o vers=4.2,noac 127.0.0.1:/ /mnt/self
    sync'
data=/mnt/nfs/data
look='timeout 20 stat -c %s /mnt/self/data/ga'

start_recording
mount_export "$VERS"

exec 8<> $data/ga
# As many bytes as before: the size stays.
printf 'changed' >&8
on_server "$look"
# The file grows, and only the holder knows it: nothing is written before the delegation is returned.
head -c 9000 /dev/zero >&8
on_server "$look"
exec 8>&-
on_server "$look"

sleep 1
keep_counters
umount /mnt/nfs
stop_recording
on_server 'umount /mnt/self'
