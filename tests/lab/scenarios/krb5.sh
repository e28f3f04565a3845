# shellcheck shell=bash
# RPCSEC_GSS: SECURITY=krb5, krb5i or krb5p. Root has the machine's credential, which is nobody on the server.
# keys: SECURITY
# settings: KERBEROS=1 GRACE_ENDS=never
security=${SECURITY:-krb5}
mine=/mnt/nfs/data/$security

start_recording
# On a slow machine ls takes longer than attributes are kept, and asks for them again.
mount_export "$VERS" "sec=$security,acregmin=60"
mkdir "$mine"
echo hello > "$mine/a"
head -c 8192 /dev/zero > "$mine/b"
yes "kept by $security" | head -c 65536 > "$mine/c" || true
sync
drop_caches
cat "$mine/a"
cat "$mine/b" "$mine/c" | md5sum
md5sum < "$mine/c"
# shellcheck disable=SC2012
ls -l "$mine" /mnt/nfs/data/many300 | wc -l
ln -s x "$mine/l"
readlink "$mine/l"
rm "$mine/b"
umount /mnt/nfs
stop_recording
