"""parascan beside torch on one GPU, and what a call from Python costs the host.

    python python/benches/versus_torch.py

Results are compared in the same run; an exception ends it if one differs. Times are the medians of rounds, in
each of which both run on the same tensors, by CUDA events. Outputs are allocated by torch on both sides.
"""

import statistics
import time

import torch

import parascan
from parascan import _native
from parascan._arrays import place_of

N = 1 << 26
ROUNDS = 21


def milliseconds(call, repeats=1):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    end.record()  # torch makes an event when it is recorded first, which is not to be timed
    begin.record()
    for _ in range(repeats):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / repeats


def beside(name, ours, theirs, rounds=ROUNDS, repeats=1):
    """Prints one row of the table. With `repeats` the host works ahead of the device, as in a longer program."""
    got, expected = ours(), theirs()
    assert torch.equal(got, expected), name
    del got, expected
    times = [(milliseconds(ours, repeats), milliseconds(theirs, repeats)) for _ in range(rounds)]
    a, b = (statistics.median(side) * 1e3 for side in zip(*times))
    print(f"{name:<44} {a:>11.1f} {b:>11.1f} {b / a:>8.2f}")


def host_cost():
    """Microseconds of the host for a call that does not wait, on few items."""
    x = torch.ones(1000, device="cuda")
    place = place_of(x)
    output = place.output((1000,), x.dtype)
    calls = {
        "the Rust call": None,
        "parascan.scan('sum', x)": lambda: parascan.scan("sum", x),
        "parascan.sort(x)": lambda: parascan.sort(x),
        "torch.cumsum(x, 0)": lambda: torch.cumsum(x, 0),
    }
    print(f"\n{'host, us a call':<44} {'median':>11}")
    for name, call in calls.items():
        rounds = []
        for _ in range(ROUNDS):
            torch.cuda.synchronize()
            if call is None:
                rounds.append(_native.seconds_of_a_scan(place.site, place.buffer(x), place.buffer(output), 500))
                continue
            begin = time.perf_counter()
            for _ in range(500):
                call()
            rounds.append((time.perf_counter() - begin) / 500)
        print(f"{name:<44} {statistics.median(rounds) * 1e6:>11.2f}")


def main():
    torch.manual_seed(0)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, 2^26 items of float32")
    print(f"{'us':<44} {'parascan':>11} {'torch':>11} {'ratio':>8}")
    # Sums of these are exact, in any grouping.
    x = torch.randint(-1, 2, (N,), device="cuda").float()
    other = torch.empty_like(x)
    print(f"{'a copy':<44} {statistics.median(milliseconds(lambda: other.copy_(x), 8) for _ in range(ROUNDS)) * 1e3:>11.1f}")
    del other
    beside("cumulative_sum / cumsum, 32 in a row", lambda: parascan.cumulative_sum(x), lambda: torch.cumsum(x, 0),
           repeats=32)
    for log in range(2, 27, 4):
        rows = x.reshape(-1, 1 << log)
        beside(f"rows of 2^{log}: cumulative_sum / cumsum", lambda: parascan.cumulative_sum(rows, axis=1),
               lambda: torch.cumsum(rows, 1))
        beside(f"rows of 2^{log}: reduce('sum') / sum", lambda: parascan.reduce("sum", rows, axis=1),
               lambda: torch.sum(rows, 1))
    for part, name in [(1 / 64, "1/64"), (1 / 2, "1/2"), (2 / 3, "2/3"), (1, "all")]:
        x = (torch.rand(N, device="cuda") < part).float()
        calls = lambda: parascan.nonzero(x)[0], lambda: torch.nonzero(x)[:, 0]
        beside(f"nonzero, {name} of the items / nonzero", *calls)
        if name == "2/3":
            beside("the same, 32 in a row", *calls, repeats=32)
    x = torch.randn(N, device="cuda")
    beside("sort / sort (torch makes indices too)", lambda: parascan.sort(x), lambda: torch.sort(x).values)
    beside("argsort / argsort(stable=True)", lambda: parascan.argsort(x), lambda: torch.argsort(x, stable=True))
    beside("scan('max') / cummax", lambda: parascan.scan("max", x), lambda: torch.cummax(x, 0).values, rounds=3)
    x = x.reshape(1 << 13, 1 << 13)
    beside("rows of 8192: scan('max') / cummax", lambda: parascan.scan("max", x, axis=1),
           lambda: torch.cummax(x, 1).values, rounds=5)
    beside("rows of 8192: sort / sort", lambda: parascan.sort(x), lambda: torch.sort(x).values)
    host_cost()


if __name__ == "__main__":
    main()
