"""Says how fast a replay was beside the kernel's client. Argument: the lines of scenarios/speed.sh, one a turn: the workload, the
turn, its calls, the microseconds of the kernel's client and of the replay, and the MiB a second of the wire, or -.

Prints the median of each with the least and the most, and how many times the kernel's rate the replay's is, turn by turn: what
happens on the host meanwhile happens to both.
"""

import statistics
import sys

BYTES = {"read-1m": 128, "write-1m": 128}  # MiB that a workload moves


def spread(values, unit, digits=1):
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} {unit} ({low:,.{digits}f} to {high:,.{digits}f})"


def main():
    turns = {}
    with open(sys.argv[1], encoding="ascii") as lines:
        for line in lines:
            name, _, calls, kernel, replay, wire = line.split()
            turns.setdefault(name, []).append((int(calls), float(kernel), float(replay), wire))
    for name, of in turns.items():
        kernel, replay = ([turn[at] / 1000 for turn in of] for at in (1, 2))
        print(f"{name}: {len(of)} turns of {of[0][0]} calls")
        print(f"  the kernel's client  {spread(kernel, 'ms')}")
        print(f"  the replay           {spread(replay, 'ms')}")
        print(f"  its rate             {spread([k / r for k, r in zip(kernel, replay)], 'of the kernel', 2)}")
        wires = [float(turn[3]) for turn in of if turn[3] != "-"]
        if wires and name in BYTES:
            rates = [BYTES[name] / (ms / 1000) for ms in replay]
            print(f"  the wire             {spread(wires, 'MiB/s')}")
            print(f"  the replay           {spread(rates, 'MiB/s')}, {statistics.median(rates) / statistics.median(wires):.2f} of the wire")


main()
