# shellcheck shell=bash
# Mail: three processes deliver messages into a maildir, a fourth moves them from new/ to cur/, reads them, and appends each to a mailbox that
# it locks. Half of the messages are removed in the end.
start_recording
mount_export "$VERS"
python3 -S - /mnt/nfs/data <<'PYTHON'
import fcntl
import os
import sys
import time

FOLDER = sys.argv[1] + "/mail"
MESSAGES, SENDERS = 12, 3


def message(sender, number):
    line = f"message {number} of sender {sender}\n"
    return (line * (1 + (sender * 37 + number * 211) % 900)).encode()


def deliver(sender):
    for number in range(MESSAGES):
        name = f"{number:04}.{sender}.client"
        file = os.open(f"{FOLDER}/tmp/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        os.write(file, message(sender, number))
        os.fsync(file)
        os.close(file)
        # As qmail does: a link fails where the name is taken, and a rename does not.
        os.link(f"{FOLDER}/tmp/{name}", f"{FOLDER}/new/{name}")
        os.unlink(f"{FOLDER}/tmp/{name}")


def collect():
    mailbox = os.open(FOLDER + "/mbox", os.O_CREAT | os.O_RDWR, 0o600)
    collected = 0
    deadline = time.monotonic() + 60
    while collected < MESSAGES * SENDERS:
        assert time.monotonic() < deadline, f"{collected} messages have arrived"
        for name in sorted(os.listdir(FOLDER + "/new")):
            os.rename(f"{FOLDER}/new/{name}", f"{FOLDER}/cur/{name}:2,S")
            with open(f"{FOLDER}/cur/{name}:2,S", "rb") as file:
                content = file.read()
            number, sender = (int(part) for part in name.split(".")[:2])
            assert content == message(sender, number), name
            fcntl.lockf(mailbox, fcntl.LOCK_EX)
            os.lseek(mailbox, 0, os.SEEK_END)
            os.write(mailbox, b"From " + name.encode() + b"\n" + content)
            fcntl.lockf(mailbox, fcntl.LOCK_UN)
            collected += 1
    os.close(mailbox)


os.mkdir(FOLDER)
for directory in ("tmp", "new", "cur"):
    os.mkdir(f"{FOLDER}/{directory}")
children = []
for sender in range(SENDERS):
    child = os.fork()
    if child == 0:
        deliver(sender)
        os._exit(0)
    children.append(child)
collect()
for child in children:
    assert os.waitpid(child, 0)[1] == 0
for name in sorted(os.listdir(FOLDER + "/cur"))[::2]:
    os.unlink(f"{FOLDER}/cur/{name}")
PYTHON
keep_counters
umount /mnt/nfs
stop_recording
