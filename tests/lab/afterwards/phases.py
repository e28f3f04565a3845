"""Says where the time of transactions goes. Standard input: the transactions of a capture as JSON Lines; argument: its name.

Of the operation that takes most time altogether the median of each phase: the call, data that the server fetches, the server, data
that it brings, and the reply (docs/transaction.schema.json).
"""

import collections
import json
import statistics
import sys


def main():
    of = collections.defaultdict(list)
    for line in sys.stdin:
        transaction = json.loads(line)
        phases = transaction.get("phases_ns")
        if phases and transaction.get("latency_ns"):
            of[transaction["operation"]].append((transaction["latency_ns"], phases))
    if not of:
        print(f"{sys.argv[1]}: no transaction has times")
        return
    name, those = max(of.items(), key=lambda item: sum(latency for latency, _ in item[1]))

    def median(values):
        return f"{statistics.median(value or 0 for value in values) / 1e6:.1f} ms"

    phases = ", ".join(
        f"{phase.replace('_', ' ')} {median(phases.get(phase) for _, phases in those)}" for phase in those[0][1]
    )
    print(f"{sys.argv[1]}: {len(those)} {name} of {median(latency for latency, _ in those)}: {phases}")


main()
