//! The scan networks of the textbook as plain functions: which positions are combined in which
//! step.
//!
//! A network scans `width` positions in place. In each step some positions `right` become
//! combine(`left`, `right`), with `left` an earlier position. All combinations of a step may run at
//! once, on the values before the step. The kernels of [`Block::Plain`](crate::Block::Plain),
//! `Shifted` and `Coarsened` do the same with a thread for each position
//! (`cuda-templates/textbook/networks.cuh`).
//!
//! ```
//! use parascan::Network;
//!
//! let mut words = ["a", "b", "c", "d"].map(str::to_owned);
//! Network::BrentKung.scan(&mut words, |earlier, later| format!("{earlier}{later}"));
//! assert_eq!(words, ["a", "ab", "abc", "abcd"]);
//! assert_eq!(Network::BrentKung.applications(1024), 2 * 1024 - 2 - 10);
//! ```
//!
//! A tile publishes its aggregate before it receives its prefix. So a network has two halves, and
//! the prefix is combined between them ([`Network::scan_from`]).
//!
//! `cargo run --example networks -- brent-kung 16` draws one, and `docs/scan-algorithms.md`
//! explains them.

/// Lanes of a warp.
const WARP: usize = 32;

/// A network that scans positions in parallel steps.
///
/// Work and steps for N positions, a power of two. [`WarpShuffles`](Network::WarpShuffles) has
/// W = N / 32 warps, and its row holds for N from 64 to 1024: the totals of more warps are scanned by
/// several warps, as the positions are.
///
/// | | applications | steps | barriers |
/// |---|---|---|---|
/// | `KoggeStone` | N log N - (N - 1) | log N | 2 log N |
/// | `KoggeStoneDoubleBuffered` | N log N - (N - 1) | log N | log N |
/// | `BrentKung` | 2 N - 2 - log N | 2 log N - 1 | 2 log N + 1 |
/// | `Sklansky` | (N / 2) log N | log N | log N |
/// | `WarpShuffles` | 129 W + W log W - (W - 1) + 31 (W - 1) | 5 + log W + 1 | 2 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Network {
    /// Each position combines with the positions 1, 2, 4, ... before it (Kogge and Stone 1973, "A
    /// Parallel Algorithm for the Efficient Solution of a General Class of Recurrence Equations").
    /// The fewest steps, and the most work. In one buffer a step needs two barriers: all reads must
    /// come before the first write.
    KoggeStone,
    /// The same network from one buffer into another, with one barrier a step.
    KoggeStoneDoubleBuffered,
    /// A reduction tree, then a reverse tree that distributes its partial results (Brent and Kung
    /// 1982, "A Regular Layout for Parallel Adders"). The least work, in nearly twice as many
    /// steps. The threads with the lowest numbers do the work.
    BrentKung,
    /// From pairs up, each position of a second half combines with the last position of the first
    /// half (Sklansky 1960, "Conditional-Sum Addition Logic"). The fewest steps with half of Kogge
    /// and Stone's work; one position is read by many.
    Sklansky,
    /// Kogge and Stone's network over the 32 lanes of each warp, by shuffles. One warp then scans
    /// the warps' totals, and each warp combines with the total before it.
    WarpShuffles,
}

impl Network {
    /// All networks.
    pub const ALL: [Network; 5] = [
        Network::KoggeStone,
        Network::KoggeStoneDoubleBuffered,
        Network::BrentKung,
        Network::Sklansky,
        Network::WarpShuffles,
    ];

    /// Calls `combination` with (step, left, right) for each combination over `width` positions,
    /// steps from 0 up. Within a step the order is such that the combinations may also run one
    /// after the other in place.
    ///
    /// ```
    /// # use parascan::Network;
    /// let mut combinations = Vec::new();
    /// Network::Sklansky.each(4, |step, left, right| combinations.push((step, left, right)));
    /// assert_eq!(combinations, [(0, 0, 1), (0, 2, 3), (1, 1, 2), (1, 1, 3)]);
    /// ```
    pub fn each(self, width: usize, combination: impl FnMut(usize, usize, usize)) {
        match self {
            Network::KoggeStone | Network::KoggeStoneDoubleBuffered => kogge_stone(width, combination),
            Network::BrentKung => brent_kung(width, combination),
            Network::Sklansky => sklansky(width, combination),
            Network::WarpShuffles => warp_shuffles(width, WARP, combination),
        }
    }

    /// An inclusive scan in place, one combination after the other: the reference for the kernels.
    pub fn scan<C>(self, items: &mut [C], mut combine: impl FnMut(&C, &C) -> C) {
        self.each(items.len(), |_, left, right| items[right] = combine(&items[left], &items[right]));
    }

    /// The number of applications of the operator over `width` positions.
    pub fn applications(self, width: usize) -> usize {
        let doublings = || distances().take_while(|distance| *distance < width);
        match self {
            Network::KoggeStone | Network::KoggeStoneDoubleBuffered => {
                doublings().map(|distance| width - distance).sum()
            }
            Network::BrentKung => {
                let up = doublings().map(|distance| width / (2 * distance));
                let down = doublings().map(|distance| (width - distance) / (2 * distance));
                up.chain(down).sum()
            }
            Network::Sklansky => {
                let in_halves = |distance: usize| {
                    let rest = width % (2 * distance);
                    width / (2 * distance) * distance + rest.saturating_sub(distance)
                };
                doublings().map(in_halves).sum()
            }
            Network::WarpShuffles => {
                let (warps, rest) = (width / WARP, width % WARP);
                let in_warps = warps * Network::KoggeStone.applications(WARP) + Network::KoggeStone.applications(rest);
                if width <= WARP {
                    return in_warps;
                }
                in_warps + self.applications(warps) + (warps - 1) * (WARP - 1) + rest
            }
        }
    }

    /// An inclusive scan in place that continues from `prefix`, as in a tile.
    ///
    /// After the first half of the steps the last position holds the aggregate. Then some positions
    /// are combined with the prefix, and the second half of the steps passes it to the others. Only
    /// Brent and Kung's network has a second half, the reverse tree. In the other networks every
    /// position is combined with the prefix.
    ///
    /// ```
    /// # use parascan::Network;
    /// let mut tile = [1, 2, 3, 4];
    /// Network::BrentKung.scan_from(&10, &mut tile, |earlier, later| earlier + later);
    /// assert_eq!(tile, [11, 13, 16, 20]);
    /// ```
    pub fn scan_from<C>(self, prefix: &C, items: &mut [C], mut combine: impl FnMut(&C, &C) -> C) {
        let (width, half) = (items.len(), self.first_half(items.len()));
        self.each(width, |step, left, right| {
            if step < half {
                items[right] = combine(&items[left], &items[right]);
            }
        });
        for right in (0..width).filter(|&right| self.takes_prefix(right)) {
            items[right] = combine(prefix, &items[right]);
        }
        self.each(width, |step, left, right| {
            if step >= half {
                items[right] = combine(&items[left], &items[right]);
            }
        });
    }

    /// The number of steps before the prefix is needed.
    fn first_half(self, width: usize) -> usize {
        match self {
            Network::BrentKung => distances().take_while(|distance| 2 * distance <= width).count(),
            _ => self.steps(width),
        }
    }

    /// Whether a position is combined with the prefix. In Brent and Kung's network the reduction
    /// tree completes these positions: 0, 1, 3, 7, ...
    fn takes_prefix(self, position: usize) -> bool {
        self != Network::BrentKung || (position + 1).is_power_of_two()
    }

    /// The number of applications of the operator over `width` positions that continue from a
    /// prefix.
    pub fn applications_from(self, width: usize) -> usize {
        self.applications(width) + (0..width).filter(|&position| self.takes_prefix(position)).count()
    }

    /// The number of steps over `width` positions.
    pub fn steps(self, width: usize) -> usize {
        let doublings = distances().take_while(|distance| *distance < width).count();
        match self {
            Network::KoggeStone | Network::KoggeStoneDoubleBuffered | Network::Sklansky => doublings,
            Network::BrentKung => {
                let up = distances().take_while(|distance| 2 * distance <= width).count();
                up + distances().take_while(|distance| 3 * distance <= width).count()
            }
            Network::WarpShuffles if width <= WARP => doublings,
            Network::WarpShuffles => self.steps(WARP) + self.steps(width / WARP) + 1,
        }
    }

    /// The number of barriers of a block of `width` threads, from the items to the results. Brent
    /// and Kung's network takes one more after each of its two trees, since other threads read what
    /// a tree wrote.
    pub fn barriers(self, width: usize) -> usize {
        match self {
            Network::KoggeStone => 2 * self.steps(width),
            Network::KoggeStoneDoubleBuffered | Network::Sklansky => self.steps(width),
            Network::BrentKung => self.steps(width) + 2,
            Network::WarpShuffles if width <= WARP => 0,
            Network::WarpShuffles => 2 + self.barriers(width / WARP),
        }
    }
}

/// 1, 2, 4, ...
fn distances() -> impl Iterator<Item = usize> {
    (0..usize::BITS - 2).map(|log| 1 << log)
}

/// Kogge and Stone's network: calls `combination` with (step, left, right), as [`Network::each`].
pub fn kogge_stone(width: usize, mut combination: impl FnMut(usize, usize, usize)) {
    for (step, distance) in distances().take_while(|distance| *distance < width).enumerate() {
        // From the last position down, so that `left` still holds its value of the step before.
        for right in (distance..width).rev() {
            combination(step, right - distance, right);
        }
    }
}

/// Brent and Kung's network: calls `combination` with (step, left, right), as [`Network::each`].
pub fn brent_kung(width: usize, mut combination: impl FnMut(usize, usize, usize)) {
    let up = distances().take_while(|distance| 2 * distance <= width);
    let down: Vec<usize> = distances().take_while(|distance| 3 * distance <= width).collect();
    let mut step = 0;
    for distance in up {
        for right in (2 * distance - 1..width).step_by(2 * distance) {
            combination(step, right - distance, right);
        }
        step += 1;
    }
    for distance in down.into_iter().rev() {
        for right in (3 * distance - 1..width).step_by(2 * distance) {
            combination(step, right - distance, right);
        }
        step += 1;
    }
}

/// Sklansky's network: calls `combination` with (step, left, right), as [`Network::each`].
pub fn sklansky(width: usize, mut combination: impl FnMut(usize, usize, usize)) {
    for (step, distance) in distances().take_while(|distance| *distance < width).enumerate() {
        for right in (distance..width).filter(|right| right & distance != 0) {
            combination(step, (right & !(distance - 1)) - 1, right);
        }
    }
}

/// Kogge and Stone's network over the lanes of each warp, then over the totals of whole warps
/// (recursively, by as many warps as they fill), then from each total to the next warp. `lanes` is
/// 32 on the device; fewer are easier to draw. Calls `combination` with (step, left, right), as
/// [`Network::each`].
///
/// # Panics
/// If `lanes` is less than 2.
pub fn warp_shuffles(width: usize, lanes: usize, mut combination: impl FnMut(usize, usize, usize)) {
    assert!(lanes >= 2, "a warp of {lanes} lanes");
    let mut steps = 0;
    for distance in distances().take_while(|distance| *distance < lanes.min(width)) {
        for right in (distance..width).rev().filter(|right| right % lanes >= distance) {
            combination(steps, right - distance, right);
        }
        steps += 1;
    }
    if width <= lanes {
        return;
    }
    let total = |warp: usize| warp * lanes + lanes - 1;
    let mut above = 0;
    let totals: &mut dyn FnMut(usize, usize, usize) = &mut |step, left, right| {
        above = above.max(step + 1);
        combination(steps + step, total(left), total(right));
    };
    warp_shuffles(width / lanes, lanes, totals);
    for right in (lanes..width).filter(|right| right % lanes != lanes - 1) {
        combination(steps + above, total(right / lanes - 1), right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ops::Range;

    /// Joins ranges of positions that follow each other.
    fn follow(earlier: &Range<usize>, later: &Range<usize>) -> Range<usize> {
        assert_eq!(earlier.end, later.start, "{earlier:?} and {later:?}");
        earlier.start..later.end
    }

    /// Each step reads the values before it, as on the device. Every position ends with all
    /// positions up to it, once each and in order.
    #[test]
    fn every_network_scans() {
        type Each = Box<dyn Fn(usize, &mut dyn FnMut(usize, usize, usize))>;
        let mut networks: Vec<(String, Each)> = Vec::new();
        for network in Network::ALL {
            networks.push((format!("{network:?}"), Box::new(move |width, f| network.each(width, f))));
        }
        for lanes in 2..=9 {
            networks.push((format!("{lanes} lanes"), Box::new(move |width, f| warp_shuffles(width, lanes, f))));
        }
        for (name, network) in networks {
            for width in (0..=130).chain([1000, 1024, 1025, 2500]) {
                let mut steps: Vec<Vec<(usize, usize)>> = Vec::new();
                network(width, &mut |step, left, right| {
                    assert!(step + 1 >= steps.len(), "{name}, {width}: steps in order");
                    steps.resize(step + 1, Vec::new());
                    steps[step].push((left, right));
                });
                let mut held: Vec<Range<usize>> = (0..width).map(|i| i..i + 1).collect();
                for step in steps {
                    let before = held.clone();
                    let mut written = vec![false; width];
                    for (left, right) in step {
                        assert!(left < right && !written[right], "{name}, {width}: {left} to {right}");
                        written[right] = true;
                        held[right] = follow(&before[left], &before[right]);
                    }
                }
                assert!(held.iter().enumerate().all(|(i, held)| *held == (0..i + 1)), "{name}, {width}: {held:?}");
            }
        }
    }

    #[test]
    fn in_place_too() {
        for network in Network::ALL {
            for width in 0..=130 {
                let mut held: Vec<Range<usize>> = (0..width).map(|i| i..i + 1).collect();
                network.scan(&mut held, follow);
                assert!(held.iter().enumerate().all(|(i, held)| *held == (0..i + 1)), "{network:?}, {width}");
            }
        }
    }

    /// Every position ends with the prefix and all positions up to it.
    #[test]
    fn from_a_prefix() {
        for network in Network::ALL {
            for width in 0..=130 {
                let mut held: Vec<Range<usize>> = (1..=width).map(|i| i..i + 1).collect();
                let mut applications = 0;
                network.scan_from(&(0..1), &mut held, |earlier, later| {
                    applications += 1;
                    follow(earlier, later)
                });
                assert!(held.iter().enumerate().all(|(i, held)| *held == (0..i + 2)), "{network:?}, {width}");
                assert_eq!(network.applications_from(width), applications, "{network:?}, {width}");
                if !width.is_power_of_two() {
                    continue; // a block has a power of two of threads
                }
                let mut held: Vec<Range<usize>> = (1..=width).map(|i| i..i + 1).collect();
                network.each(width, |step, left, right| {
                    if step < network.first_half(width) {
                        held[right] = follow(&held[left], &held[right]);
                    }
                });
                assert_eq!(
                    held[width - 1],
                    1..width + 1,
                    "{network:?}, {width}: the aggregate, before the prefix is there"
                );
            }
        }
    }

    #[test]
    fn counts_are_those_of_the_networks() {
        for network in Network::ALL {
            for width in (0..=130).chain([511, 512, 513, 1024, 40_000]) {
                let (mut applications, mut steps) = (0, 0);
                network.each(width, |step, _, _| {
                    applications += 1;
                    steps = step + 1;
                });
                assert_eq!(network.applications(width), applications, "{network:?}, {width}");
                assert_eq!(network.steps(width), steps, "{network:?}, {width}");
            }
        }
    }

    #[test]
    fn counts_are_the_textbook_s() {
        for log in 1..=10 {
            let n = 1 << log;
            for kogge_stone in [Network::KoggeStone, Network::KoggeStoneDoubleBuffered] {
                assert_eq!(kogge_stone.applications(n), n * log - (n - 1));
                assert_eq!(kogge_stone.steps(n), log);
            }
            // The reduction tree makes n / 2 + n / 4 + ... + 1 combinations. A step of the reverse
            // tree completes the middle of each stretch between complete positions, except for the
            // first stretch, whose middle is complete: (2 - 1) + (4 - 1) + ... + (n / 2 - 1).
            let (up, down): (usize, usize) = ((1..=log).map(|k| n >> k).sum(), (1..log).map(|k| (1 << k) - 1).sum());
            assert_eq!((up, down), (n - 1, n - 1 - log));
            assert_eq!(Network::BrentKung.applications(n), 2 * n - 2 - log);
            assert_eq!(Network::BrentKung.applications_from(n), 2 * n - 1, "the prefix goes to log N + 1 positions");
            assert_eq!(Network::BrentKung.steps(n), 2 * log - 1);
            assert_eq!(Network::Sklansky.applications(n), n / 2 * log);
            assert_eq!(Network::Sklansky.steps(n), log);
            if let Some(log_warps) = log.checked_sub(5).filter(|&log| log > 0) {
                let warps = n / 32;
                let totals = warps * log_warps - (warps - 1);
                assert_eq!(Network::WarpShuffles.applications(n), 129 * warps + totals + 31 * (warps - 1));
                assert_eq!(Network::WarpShuffles.steps(n), 5 + log_warps + 1);
                assert_eq!(Network::WarpShuffles.barriers(n), 2);
            }
        }
    }
}
