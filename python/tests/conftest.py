"""Fresh random data for each test. A test that fails prints its seed, and PARASCAN_SEED repeats it."""

import os
import secrets

import numpy as np
import pytest

rng = np.random.default_rng()


@pytest.fixture(autouse=True)
def seed():
    seed = int(os.environ.get("PARASCAN_SEED") or secrets.randbits(32))
    print(f"PARASCAN_SEED={seed}")
    rng.bit_generator.state = np.random.PCG64(seed).state
