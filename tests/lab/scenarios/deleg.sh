# shellcheck shell=bash
# Delegations, recalled because somebody on the server writes, looks at and removes the files.
on_server '
    for number in 1 2 3; do
        yes "delegation $number" | head -c 5000 > /export/data/del$number
    done
    chmod 666 /export/data/del*
    sync'
data=/mnt/nfs/data

start_recording
mount_export "$VERS"

cat $data/del1 > /dev/null
exec 7< $data/del1
cat <&7 > /dev/null
cat $data/del1 > /dev/null
on_server 'timeout 20 bash -c "echo more >> /export/data/del1"'
exec 7<&-

# A delegation to write, with what is written still at the client: the server asks for the size, and then recalls it.
exec 8<> $data/del2
echo "changed by the client" >&8
on_server 'stat -c %s /export/data/del2; timeout 20 head -c 30 /export/data/del2'
exec 8>&-

exec 7< $data/del3
cat <&7 > /dev/null
on_server 'timeout 20 rm /export/data/del3'
exec 7<&-

sleep 1
keep_counters
umount /mnt/nfs
stop_recording
