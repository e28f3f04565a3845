# shellcheck shell=bash
# nfs-ganesha instead of the kernel's server, over TCP: files are written, read, renamed and removed.
# settings: TRANSPORT=tcp GRACE_ENDS=never
data=/mnt/nfs/data

on_server 'bash /lab/guest/ganesha.sh'
start_recording
mount_export "$VERS"
mkdir "$data/folder"
for size in 0 1 100 4096 70000; do yes "to ganesha" | head -c "$size" > "$data/folder/f$size" || true; done
drop_caches
cat "$data"/folder/* > /dev/null
# Linux asks for a directory delegation. This server answers NFS4ERR_OP_ILLEGAL, and the listing fails with EREMOTEIO.
ls -l "$data/folder" > /dev/null || true
ls "$data/many300" > /dev/null
ln -s f100 "$data/folder/link"
readlink "$data/folder/link" > /dev/null
mv "$data/folder/f1" "$data/folder/moved"
truncate -s 50 "$data/folder/f100"
chmod 600 "$data/folder/f4096"
flock "$data/folder/f4096" true
rm "$data/folder/f0"
! cat "$data/folder/f0" 2> /dev/null
sync
keep_counters
umount /mnt/nfs
stop_recording
