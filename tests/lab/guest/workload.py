"""The basic workload: 67 calls in a new folder of the export, each of which is one line of what this prints.

A line is what a capture can be held to: number, time (the clock that stamps the packets), call, argument, result, with tabs
between them. File contents say where they belong, so that what is read can be checked. What goes another way than it
must is marked UNEXPECTED, and the exit code is 1.

Arguments: where the export is mounted, the version of NFS, and when the server's grace period ends: CALL+SECONDS after the
workload comes to the call of that number (0+0: it is over). In it the client has no delegations, and asks again for locks.
"""

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time

TOP, VERSION = sys.argv[1:3]
GRACE_CALL, GRACE_SECONDS = sys.argv[3].split("+")
FOLDER = TOP + "/data/w"
SIZES = {"s100": 100, "s2k": 2000, "s8k": 8192, "s64k": 65536, "s256k": 262144}
# <linux/fs.h>: the ioctl that makes a file share the blocks of another.
FICLONE = 0x40049409

number = 0
unexpected = 0


def record(call, argument, result):
    global number
    number += 1
    print(f"{number}\t{time.time():.6f}\t{call}\t{argument}\t{result}", flush=True)


def end_grace():
    with open("/shared/grace.end", "w", encoding="ascii"):
        pass


def end_grace_in_time():
    """At once, and when it is over; or after a while, in which the workload goes on."""
    if float(GRACE_SECONDS):
        threading.Timer(float(GRACE_SECONDS), end_grace).start()
        return
    end_grace()
    while not os.path.exists("/shared/grace.over"):
        time.sleep(0.05)


def step(call, argument, action, expected="ok"):
    """Does one call. `expected` is "ok", the name of an error, or "any" where versions of NFS differ."""
    global unexpected
    if number + 1 == int(GRACE_CALL):
        end_grace_in_time()
    try:
        value = action()
        result = "ok" if value is None else f"ok {value}"
    except OSError as error:
        result = errno.errorcode.get(error.errno, str(error.errno))
    if expected != "any" and not result.startswith(expected):
        unexpected += 1
        result += "  UNEXPECTED"
    record(call, argument, result)


def contents(name, length):
    """Text that names its file and offset: `s100@00000000|s100@0000000e|...`"""
    text, at = [], 0
    while at < length:
        text.append(f"{name}@{at:08x}|")
        at += len(text[-1])
    return "".join(text).encode()[:length]


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")


def run(*command):
    if subprocess.run(command, capture_output=True, check=False).returncode:
        raise OSError(errno.EREMOTEIO, command[0])


def as_uid_1000(action):
    """Does it in a process of another user, and fails as it fails there."""
    child = os.fork()
    if child == 0:
        os.setgid(1000)
        os.setuid(1000)
        try:
            action()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, "")


def write(name, length, flags=0):
    file = os.open(f"{FOLDER}/{name}", os.O_CREAT | os.O_WRONLY | flags, 0o644)
    written = os.write(file, contents(name, length))
    os.fsync(file)
    os.close(file)
    return f"{written} bytes"


def read(name, length, flags=0, offset=0):
    file = os.open(f"{FOLDER}/{name}", os.O_RDONLY | flags)
    data = os.pread(file, length, offset)
    os.close(file)
    if data != contents(name, offset + length)[offset : offset + len(data)]:
        raise OSError(errno.EBADMSG, name)
    return f"{len(data)} bytes"


def files():
    step("mkdir", FOLDER, lambda: os.mkdir(FOLDER))
    step("mkdir", FOLDER + "/sub", lambda: os.mkdir(FOLDER + "/sub"))
    for name, length in SIZES.items():
        step("write+fsync", f"{FOLDER}/{name} {length}", lambda: write(name, length))
    step("write O_DIRECT", f"{FOLDER}/d12345 12345", lambda: write("d12345", 12345, os.O_DIRECT))
    step("write O_SYNC", f"{FOLDER}/y3000 3000", lambda: write("y3000", 3000, os.O_SYNC))
    drop_caches()
    for name, length in SIZES.items():
        step("read", f"{FOLDER}/{name} {length}", lambda: read(name, length))
    step("read O_DIRECT", f"{FOLDER}/d12345 0+5000", lambda: read("d12345", 5000, os.O_DIRECT))
    step(
        "read O_DIRECT",
        f"{FOLDER}/d12345 10000+4096 (short)",
        lambda: read("d12345", 4096, os.O_DIRECT, 10000),
    )
    step(
        "read O_DIRECT",
        f"{FOLDER}/d12345 20000+100 (eof)",
        lambda: read("d12345", 100, os.O_DIRECT, 20000),
    )


def names():
    step("symlink", FOLDER + "/sl s100", lambda: os.symlink("s100", FOLDER + "/sl"))
    target = ("x" * 99 + "/") * 10 + "y" * 20
    step("symlink", FOLDER + "/longsl 1020", lambda: os.symlink(target, FOLDER + "/longsl"))
    drop_caches()
    step("readlink", FOLDER + "/sl", lambda: len(os.readlink(FOLDER + "/sl")))
    step("readlink", FOLDER + "/longsl", lambda: len(os.readlink(FOLDER + "/longsl")))
    step("link", FOLDER + "/s100 hard", lambda: os.link(FOLDER + "/s100", FOLDER + "/hard"))
    step("rename", FOLDER + "/hard sub/hard2", lambda: os.rename(FOLDER + "/hard", FOLDER + "/sub/hard2"))
    step("mknod fifo", FOLDER + "/fifo", lambda: os.mkfifo(FOLDER + "/fifo"))


def directories():
    many = TOP + "/data/many300"
    record("note", "300 entries made by the server", "ok")
    drop_caches()
    step("readdir", FOLDER + "/many300", lambda: len(os.listdir(many)))
    step("readdir+stat", "data/many300", lambda: sum(os.lstat(f"{many}/{name}").st_size for name in os.listdir(many)))


def attributes():
    file = FOLDER + "/s8k"
    step("stat", file, lambda: os.stat(file).st_size)
    step("statfs", TOP, lambda: os.statvfs(TOP).f_blocks)
    step("chmod", file + " 0600", lambda: os.chmod(file, 0o600))
    step("chown", file + " 1000:1001", lambda: os.chown(file, 1000, 1001))
    step("utime", file, lambda: os.utime(file, (1e9, 1.1e9)))
    step("truncate", FOLDER + "/s64k 30000", lambda: os.truncate(FOLDER + "/s64k", 30000))
    step("access", file, lambda: os.access(file, os.R_OK))


def extended_attributes():
    file = FOLDER + "/s100"
    # RFC 8276: they came with NFSv4.2.
    expected = "ok" if VERSION == "4.2" else "any"
    step("setxattr", file + " user.a 20", lambda: os.setxattr(file, "user.a", b"v" * 20), expected)
    step("setxattr", file + " user.big 4000", lambda: os.setxattr(file, "user.big", contents("xattr", 4000)), expected)
    drop_caches()
    step("getxattr", file + " user.a", lambda: len(os.getxattr(file, "user.a")), expected)
    step("getxattr", file + " user.big", lambda: len(os.getxattr(file, "user.big")), expected)
    step("listxattr", file, lambda: len(os.listxattr(file)), "any")
    step("removexattr", file + " user.a", lambda: os.removexattr(file, "user.a"), expected)
    acl = "system.posix_acl_access" if VERSION == "3" else "system.nfs4_acl"
    step("getacl", file, lambda: len(os.getxattr(file, acl)), "any")
    if VERSION == "3":
        step("setacl", file + " u:1000:r", lambda: run("setfacl", "-m", "u:1000:r", file), "any")
    else:
        step("setacl", file + " A::1000:r", lambda: run("nfs4_setfacl", "-a", "A::1000:r", file), "any")


def holes():
    sparse = FOLDER + "/sparse"
    expected = "ok" if VERSION == "4.2" else "any"

    def make():
        file = os.open(sparse, os.O_CREAT | os.O_RDWR, 0o644)
        os.pwrite(file, b"A" * 4096, 0)
        os.pwrite(file, b"B" * 4096, 131072)
        os.ftruncate(file, 200000)
        os.fsync(file)
        os.close(file)

    def seek():
        file = os.open(sparse, os.O_RDONLY)
        places = [
            os.lseek(file, 0, os.SEEK_HOLE),
            os.lseek(file, 8192, os.SEEK_DATA),
            os.lseek(file, 140000, os.SEEK_HOLE),
        ]
        os.close(file)
        return places

    def read_hole():
        file = os.open(sparse, os.O_RDONLY)
        data = os.pread(file, 65536, 98304)
        os.close(file)
        return f"{len(data)} bytes, {len(data) - data.count(0)} nonzero"

    def copy():
        source = os.open(FOLDER + "/s8k", os.O_RDONLY)
        target = os.open(FOLDER + "/copy8k", os.O_CREAT | os.O_WRONLY, 0o644)
        copied = os.copy_file_range(source, target, 8192)
        os.fsync(target)
        os.close(source)
        os.close(target)
        return copied

    def clone():
        source = os.open(FOLDER + "/s8k", os.O_RDONLY)
        target = os.open(FOLDER + "/clone8k", os.O_CREAT | os.O_WRONLY, 0o644)
        try:
            fcntl.ioctl(target, FICLONE, source)
        finally:
            os.close(source)
            os.close(target)

    step("sparse file", sparse + " 200000: data 0+4096, 131072+4096", make)
    drop_caches()
    step("lseek hole/data/hole", sparse, seek)
    step("read hole", sparse + " 98304+65536", read_hole)
    step("fallocate", FOLDER + "/fa 100000", lambda: run("fallocate", "-l", "100000", FOLDER + "/fa"), expected)
    step(
        "punch hole",
        FOLDER + "/s256k 65536+65536",
        lambda: run("fallocate", "-p", "-o", "65536", "-l", "65536", FOLDER + "/s256k"),
        expected,
    )
    step("copy_file_range", FOLDER + "/s8k copy8k", copy)
    step("clone", FOLDER + "/s8k clone8k", clone, expected)


def locks():
    path = FOLDER + "/s100"

    def lock():
        file = os.open(path, os.O_RDWR)
        fcntl.lockf(file, fcntl.LOCK_EX, 10, 0)
        fcntl.lockf(file, fcntl.LOCK_SH, 5, 20)
        other = os.fork()
        if other == 0:
            again = os.open(path, os.O_RDWR)
            try:
                fcntl.lockf(again, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
                os._exit(1)
            except OSError:
                os._exit(0)
        granted = os.waitpid(other, 0)[1]
        fcntl.lockf(file, fcntl.LOCK_UN, 10, 0)
        os.close(file)
        return "no conflict" if granted else "conflict seen"

    def flock():
        file = os.open(FOLDER + "/s2k", os.O_RDWR)
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.flock(file, fcntl.LOCK_UN)
        os.close(file)

    step("fcntl lock/unlock", path, lock, "ok conflict seen")
    step("flock", FOLDER + "/s2k", flock)


def failures():
    def fill():
        file = os.open(TOP + "/tiny/f", os.O_CREAT | os.O_WRONLY | os.O_DIRECT, 0o644)
        try:
            for turn in range(64):
                os.write(file, contents("tiny", 4096 if turn < 15 else 65536))
        finally:
            os.close(file)

    missing = FOLDER + "/nothere"
    step("open missing", missing, lambda: os.close(os.open(missing, os.O_RDONLY)), "ENOENT")
    step("mkdir exists", FOLDER + "/sub", lambda: os.mkdir(FOLDER + "/sub"), "EEXIST")
    step("rmdir not empty", FOLDER, lambda: os.rmdir(FOLDER), "ENOTEMPTY")
    step("readdir as uid 1000", TOP + "/priv", lambda: as_uid_1000(lambda: os.listdir(TOP + "/priv")), "EACCES")
    step(
        "chmod as uid 1000",
        FOLDER + "/s100",
        lambda: as_uid_1000(lambda: os.chmod(FOLDER + "/s100", 0o777)),
        "EPERM",
    )
    step("write to a full fs", TOP + "/tiny/f", fill, "ENOSPC")


def removal():
    for name in ("s100", "s2k", "sl", "longsl", "fifo", "copy8k", "d12345", "y3000", "sub/hard2"):
        step("unlink", f"{FOLDER}/{name}", lambda: os.unlink(f"{FOLDER}/{name}"))
    step("rmdir", FOLDER + "/sub", lambda: os.rmdir(FOLDER + "/sub"))


for part in (files, names, directories, attributes, extended_attributes, holes, locks, failures, removal):
    part()
record("end", "", f"{unexpected} unexpected")
sys.exit(1 if unexpected else 0)
