# shellcheck shell=bash
# An SQLite database: two processes insert, update and delete rows in transactions of their own, with byte-range locks and a rollback journal
# that is created and removed each time. A third reads. In the end the database is vacuumed and checked.
start_recording
mount_export "$VERS"
python3 -S - /mnt/nfs/data/db.sqlite <<'PYTHON'
import os
import sqlite3
import sys

PATH = sys.argv[1]
TRANSACTIONS = 8


def connect():
    return sqlite3.connect(PATH, timeout=60, isolation_level=None)


def write(writer):
    database = connect()
    for turn in range(TRANSACTIONS):
        database.execute("begin immediate")
        for row in range(20):
            database.execute("insert into log values (?, ?, ?)", (writer, turn * 20 + row, "x" * (10 + 37 * row)))
        database.execute("update log set text = text || '!' where writer = ? and number % 7 = 0", (writer,))
        database.execute("delete from log where writer = ? and number % 11 = 3", (writer,))
        database.execute("commit")


def read():
    database = connect()
    for _ in range(TRANSACTIONS):
        database.execute("select writer, count(*), sum(length(text)) from log group by writer").fetchall()


connect().execute("create table log (writer integer, number integer, text text)")
children = []
for action in (lambda: write(1), lambda: write(2), read):
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    children.append(child)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
database = connect()
database.execute("vacuum")
(verdict,) = database.execute("pragma integrity_check").fetchone()
assert verdict == "ok", verdict
database.close()
PYTHON
keep_counters
umount /mnt/nfs
stop_recording
