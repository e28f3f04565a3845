# shellcheck shell=bash
# READs and WRITEs of 1 MiB. The kernel's default limit depends on the memory (512 KiB with 3 GiB), so it is raised. The
# pages of a file differ, so that a page in the wrong place is found.
# settings: MOUNT_OPTIONS=rsize=1048576,wsize=1048576
data=/mnt/nfs/data

# The limit cannot change while nfsd runs.
on_server 'echo 0 > /proc/fs/nfsd/threads
    echo 1048576 > /proc/fs/nfsd/max_block_size
    rpc.nfsd --rdma=20049 8
    cat /proc/fs/nfsd/max_block_size'
awk 'BEGIN { while (page++ < 1024) printf "%08d%4088s", page, "" }' > /tmp/source
start_recording
mount_export "$VERS"
mkdir $data/large
dd if=/tmp/source of=$data/large/whole bs=1M oflag=direct count=4 status=none
dd if=$data/large/whole of=/tmp/copy bs=1M iflag=direct status=none
cmp -n 4194304 /tmp/source /tmp/copy
# Two processes write one file at the same time.
dd if=/tmp/source of=$data/large/halves bs=1M count=1 oflag=direct status=none &
dd if=/tmp/source of=$data/large/halves bs=1M count=2 skip=1 seek=1 oflag=direct conv=notrunc status=none
wait $!
# One MiB and a page, which the client writes back.
head -c 1052672 /tmp/source > $data/large/buffered
sync $data/large/buffered
keep_counters
umount /mnt/nfs
stop_recording
