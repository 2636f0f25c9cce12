//! The textbook's ladder: every block with every join of tiles.

use crate::bench::{Bench, Case, Verdict};
use crate::gpu::{Gpu, told};
use parascan::{Block, Network, Strategy, Sum, Workspace, scan};

/// Every combination is timed at this length.
const N: usize = 1 << 26;

const JOINS: [fn(Block) -> Strategy; 4] =
    [Strategy::Hierarchical, Strategy::Chained, Strategy::LookBack, Strategy::PrefixServer];

/// The steps of the ladder, timed at all lengths and drawn by `plot::ladder` with these labels.
pub(crate) const STEPS: [(Strategy, &str); 8] = [
    (Strategy::Hierarchical(Block::Plain(Network::KoggeStone)), "hierarchical, Kogge-Stone"),
    (Strategy::Hierarchical(Block::Plain(Network::KoggeStoneDoubleBuffered)), "hierarchical, double-buffered"),
    (Strategy::Hierarchical(Block::Plain(Network::BrentKung)), "hierarchical, Brent-Kung"),
    (Strategy::Hierarchical(Block::Coarsened(Network::WarpShuffles)), "hierarchical, coarsened"),
    (Strategy::Chained(Block::Coarsened(Network::WarpShuffles)), "chained, coarsened"),
    (Strategy::LookBack(Block::Coarsened(Network::WarpShuffles)), "look-back, coarsened"),
    (Strategy::PrefixServer(Block::Coarsened(Network::WarpShuffles)), "prefix server, coarsened"),
    (Strategy::Auto, "parascan's own"),
];

/// The suffix of a strategy's row: `_chained_plain_kogge_stone`.
pub(crate) fn suffix(strategy: Strategy) -> String {
    let mut suffix = String::new();
    for c in format!("{strategy:?}").chars().filter(|c| c.is_ascii_alphabetic()) {
        if c.is_ascii_uppercase() {
            suffix.push('_');
        }
        suffix.push(c.to_ascii_lowercase());
    }
    suffix
}

pub(crate) fn ladder(gpu: &Gpu, verdict: &Verdict) {
    let Some(mut bench) = Bench::<f32>::new(gpu, verdict, 1 << 28) else { return };
    let mut row = |n: usize, strategy: Strategy, exclusive: bool| {
        let suffix = suffix(strategy);
        bench.row::<Sum>(n, Case { strategy, exclusive, suffix: &suffix, ..Case::default() });
    };
    for join in JOINS {
        for network in Network::ALL {
            row(N, join(Block::Plain(network)), false);
            row(N, join(Block::Coarsened(network)), false);
            // Plain and shifted blocks differ only in exclusive scans.
            row(N, join(Block::Plain(network)), true);
            row(N, join(Block::Shifted(network)), true);
        }
        row(N, join(Block::WarpShuffles), false);
    }
    row(N, Strategy::Auto, false);
    for n in (10..=28).map(|log| 1 << log).filter(|&n| n != N) {
        for (strategy, _) in STEPS {
            row(n, strategy, false);
        }
    }
}

/// Runs each step once for a profiler, and prints its kernels in order and the bytes that it must
/// move.
pub(crate) fn traffic(gpu: &Gpu, verdict: &Verdict) {
    let run = || -> Result<(), String> {
        let stream = &gpu.stream;
        let x = told("the input", stream.clone_htod(&vec![1.0_f32; N]))?;
        let mut y = told("the output", stream.alloc_zeros::<f32>(N))?;
        let mut workspace = Workspace::new(stream);
        for (strategy, _) in STEPS {
            let sum = scan::<Sum, f32>().strategy(strategy);
            told("prepare", sum.prepare(N, &mut workspace))?;
            told("scan", sum.workspace(&mut workspace).run_into(&x, &mut y))?;
            gpu.synchronize()?;
            // `Strategy::Auto` is a single pass and has no `Work`.
            let (launches, read, written) = scan::<Sum, f32>()
                .strategy(strategy)
                .work(N)
                .map_or((1, 4 * N as u64, 4 * N as u64), |work| (work.launches, work.read, work.written));
            println!("{} {launches} kernels, {read} bytes read, {written} written", suffix(strategy));
        }
        Ok(())
    };
    verdict.note("traffic", run());
}
