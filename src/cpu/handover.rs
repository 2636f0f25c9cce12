//! The hand-over: every tile publishes its aggregate and receives its exclusive prefix, and no
//! thread depends on another.
//!
//! In pseudo-code, for one thread:
//!
//! ```text
//! u = a fresh tile
//! while there is something to do, in this order of preference:
//!     a ready tile t of its own:  finish(t), which may aggregate u meanwhile
//!     the fresh tile u:           aggregate(u)
//!     another's ready tile t:     finish(t)
//!   and if u was aggregated:
//!     draw the next fresh tile, for later
//!     if prefix[u] is there: extend prefixes from u
//!     else: leave u parked, and linger for a moment
//!
//! extend prefixes from t:   prefix[t + 1] = combine(prefix[t], aggregate[t]); t is ready
//!                           if aggregate[t + 1] is there: extend prefixes from t + 1
//! ```
//!
//! README.md in this folder says why no tile is lost and no progress depends on a wait.

use super::sync::{AtomicBool, AtomicUsize, Once};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

/// Gives each of `tiles` tiles the combination of everything before it, on all threads of rayon's
/// current pool.
///
/// - `aggregate(t)` returns the state of tile `t` alone, and a value kept until the tile is
///   finished.
/// - `combine(earlier, later)` is associative; it need not be commutative.
/// - `finish(t, prefix, kept)` gets the combination of `first` and the aggregates of the tiles
///   `0..t`. The prefix is `None` only for tile 0 and only if `first` is.
///
/// Returns `first` and all aggregates, combined: `None` if there are no tiles and no `first`.
///
/// `aggregate` and `finish` are called once for each tile, `finish` after `aggregate`, which
/// happens before it. Tiles are aggregated about in order and finished in any. The state may be
/// large, such as the 256 counters of a radix sort.
///
/// Every prefix is `combine(combine(combine(first, a0), a1), a2)` and so on, however the threads
/// are scheduled, so rounded results have the same bits in every run.
///
/// The call returns when all tiles are finished and each helper that it asked rayon's pool for has run, if only to find
/// nothing left. So a call from outside of a pool waits for a pool that is busy. No thread depends on another in
/// between: a thread polls for a prefix for at most some 50 us, then does other work. So the closures may enter rayon,
/// or this function again. A panic in any of them ends the work early and reaches the caller.
///
/// Calls `aggregate` and `finish` `tiles` times each, and `combine` as often, or once less without `first`. Takes memory
/// for two states and the kept value of each tile.
/// With one tile or one thread nothing is allocated.
///
/// This is the single-pass scan of Merrill and Garland ("Single-pass Parallel Prefix Scan with
/// Decoupled Look-back", 2016) with the direction reversed: there a tile looks back and waits until
/// it has found its prefix; here a tile whose prefix is missing is parked, and the thread that
/// brings the prefix continues with it.
///
/// # Example
/// ```
/// use parascan::cpu::hand_over;
/// use std::sync::Mutex;
///
/// // The index, from 1 on, of the first word of each line.
/// let lines = ["in the beginning", "was", "the word"];
/// let starts = Mutex::new([0; 3]);
/// let words = hand_over(
///     lines.len(),
///     Some(1),
///     |line| (lines[line].split(' ').count(), ()),
///     |earlier, later| earlier + later,
///     |line, start, ()| starts.lock().unwrap()[line] = *start.unwrap(),
/// );
/// assert_eq!(starts.into_inner().unwrap(), [1, 4, 5]);
/// assert_eq!(words, Some(7));
/// ```
pub fn hand_over<S, K>(
    tiles: usize,
    first: Option<S>,
    aggregate: impl Fn(usize) -> (S, K) + Sync,
    combine: impl Fn(&S, &S) -> S + Sync,
    finish: impl Fn(usize, Option<&S>, K) + Sync,
) -> Option<S>
where
    S: Copy + Send,
    K: Copy + Send,
{
    hand_over_ahead(tiles, first, aggregate, combine, |tile, prefix, kept, _| {
        finish(tile, prefix, kept);
        None
    })
}

/// [`hand_over`] in which `finish` also gets the tile that the thread will aggregate next, if any.
/// `finish` may aggregate that tile and return the result of `aggregate`: then memory is read and
/// written at the same time.
pub(super) fn hand_over_ahead<S, K>(
    tiles: usize,
    first: Option<S>,
    aggregate: impl Fn(usize) -> (S, K) + Sync,
    combine: impl Fn(&S, &S) -> S + Sync,
    finish: impl Fn(usize, Option<&S>, K, Option<usize>) -> Option<(S, K)> + Sync,
) -> Option<S>
where
    S: Copy + Send,
    K: Copy + Send,
{
    // The number of tiles first: asking rayon for its threads would start them.
    if tiles < 2 || rayon::current_num_threads() < 2 {
        return in_order(tiles, first, aggregate, combine, finish);
    }
    let threads = rayon::current_num_threads().min(tiles);
    let crew = Crew {
        chain: Chain::new(tiles, first, threads),
        aggregate,
        combine,
        finish,
        absent: AtomicUsize::new(threads - 1),
    };
    rayon::in_place_scope(|scope| {
        for _ in 1..threads {
            crew.recruit(scope);
        }
        crew.work(scope);
    });
    crew.chain.total()
}

/// [`hand_over_ahead`] on the calling thread alone: nothing is published and nothing allocated.
#[inline]
pub(super) fn in_order<S: Copy, K>(
    tiles: usize,
    first: Option<S>,
    aggregate: impl Fn(usize) -> (S, K),
    combine: impl Fn(&S, &S) -> S,
    finish: impl Fn(usize, Option<&S>, K, Option<usize>) -> Option<(S, K)>,
) -> Option<S> {
    let mut prefix = first;
    let mut aggregated = None;
    for tile in 0..tiles {
        let (sum, kept) = aggregated.take().unwrap_or_else(|| aggregate(tile));
        let next = extend(prefix.as_ref(), &sum, &combine);
        aggregated = finish(tile, prefix.as_ref(), kept, Some(tile + 1).filter(|&next| next < tiles));
        prefix = Some(next);
    }
    prefix
}

#[inline]
fn extend<S: Copy>(prefix: Option<&S>, aggregate: &S, combine: &impl Fn(&S, &S) -> S) -> S {
    match prefix {
        Some(prefix) => combine(prefix, aggregate),
        None => *aggregate,
    }
}

/// The threads that work on one chain, and the closures.
struct Crew<S, K, A, C, F> {
    chain: Chain<S, K>,
    aggregate: A,
    combine: C,
    finish: F,
    /// The number of threads that could still help: not yet asked, or left without work.
    absent: AtomicUsize,
}

impl<S, K, A, C, F> Crew<S, K, A, C, F>
where
    S: Copy + Send,
    K: Copy + Send,
    A: Fn(usize) -> (S, K) + Sync,
    C: Fn(&S, &S) -> S + Sync,
    F: Fn(usize, Option<&S>, K, Option<usize>) -> Option<(S, K)> + Sync,
{
    fn work<'scope>(&'scope self, scope: &rayon::Scope<'scope>) {
        self.chain.work(&self.aggregate, &self.combine, &self.finish, || self.recruit(scope));
        self.absent.fetch_add(1, Relaxed);
    }

    fn recruit<'scope>(&'scope self, scope: &rayon::Scope<'scope>) {
        let mut absent = self.absent.load(Relaxed);
        while absent > 0 {
            match self.absent.compare_exchange_weak(absent, absent - 1, Relaxed, Relaxed) {
                Ok(_) => return scope.spawn(|scope| self.work(scope)),
                Err(now) => absent = now,
            }
        }
    }
}

/// The index that ends a stack of ready tiles.
const NONE: usize = usize::MAX;

/// Polls for a parked tile to become ready before the thread draws a fresh one: at most some 50 us,
/// a few times the work of a tile. A tile finished at once is still in the cache.
const LINGER: usize = 1000;
/// Tiles that a thread parks without polling after it has polled in vain: the thread that should
/// bring the prefix may not be running.
const PARKS_WITHOUT_LINGERING: usize = 16;

/// The state of one tile in the chain.
struct Tile<S, K> {
    /// Whether one of the tile's two events has happened: its aggregate was written, its prefix was
    /// written.
    half: AtomicBool,
    aggregate: Once<S>,
    kept: Once<K>,
    /// The worker that drew the tile, and has it in its cache.
    drawer: Once<usize>,
    prefix: Once<Option<S>>,
    /// The tile below this one on a stack of ready tiles.
    below: AtomicUsize,
}

impl<S: Copy, K: Copy> Tile<S, K> {
    fn new(half: bool) -> Self {
        Tile {
            half: AtomicBool::new(half),
            aggregate: Once::empty(),
            kept: Once::empty(),
            drawer: Once::empty(),
            prefix: Once::empty(),
            below: AtomicUsize::new(NONE),
        }
    }

    /// Reports one of the two events, and returns whether it was the second. Then the caller owns
    /// the tile, and everything written before either event is visible.
    fn complete(&self) -> bool {
        // Releases this thread's writes, acquires the other thread's.
        self.half.swap(true, AcqRel)
    }
}

/// The tiles, and an entry for the total.
struct Chain<S, K> {
    tiles: Box<[Tile<S, K>]>,
    /// The next fresh tile.
    ticket: AtomicUsize,
    /// The number of threads that have begun to work, which numbers their stacks.
    workers: AtomicUsize,
    /// The top of each worker's stack: tiles that it drew and parked, and that have their prefix.
    ready: Box<[AtomicUsize]>,
    /// Whether a thread has panicked.
    poisoned: AtomicBool,
}

// SAFETY: the fields of a tile pass from thread to thread (hence `Send`) and no two threads use
// them at a time: they belong to the thread that drew the tile, then to the one that completed it,
// then to the one that took it off the ready stack.
unsafe impl<S: Send, K: Send> Sync for Chain<S, K> {}

impl<S: Copy, K: Copy> Chain<S, K> {
    fn new(tiles: usize, first: Option<S>, stacks: usize) -> Self {
        // Tile 0 has its prefix from the beginning.
        let tiles: Box<[_]> = (0..=tiles).map(|tile| Tile::new(tile == 0)).collect();
        // SAFETY: no other thread knows of the chain yet.
        unsafe { tiles[0].prefix.write(first) };
        Chain {
            tiles,
            ticket: AtomicUsize::new(0),
            workers: AtomicUsize::new(0),
            ready: (0..stacks).map(|_| AtomicUsize::new(NONE)).collect(),
            poisoned: AtomicBool::new(false),
        }
    }

    /// The loop of each thread: work in the order of preference above, until none is left.
    ///
    /// Calls `recruit` for each tile that has become ready and that another thread could finish.
    fn work(
        &self,
        aggregate: &impl Fn(usize) -> (S, K),
        combine: &impl Fn(&S, &S) -> S,
        finish: &impl Fn(usize, Option<&S>, K, Option<usize>) -> Option<(S, K)>,
        recruit: impl Fn(),
    ) {
        let poison = PoisonOnUnwind(&self.poisoned);
        // Two workers may share a number: only cache locality depends on it.
        let me = self.workers.fetch_add(1, Relaxed) % self.ready.len();
        let draw = || Some(self.ticket.fetch_add(1, Relaxed)).filter(|&tile| tile < self.tiles.len() - 1);
        let publish = |tile: usize, (sum, kept): (S, K)| {
            let entry = &self.tiles[tile];
            // SAFETY: the ticket gave the tile to this thread alone, and others read only after
            // `complete`.
            unsafe {
                entry.aggregate.write(sum);
                entry.kept.write(kept);
                entry.drawer.write(me);
            }
            let complete = entry.complete();
            if complete {
                self.extend_prefixes(tile, combine, &recruit);
            }
            complete
        };
        // The tile that this thread will aggregate next.
        let mut drawn = draw();
        let mut parks_without_lingering = 0;
        while !self.poisoned.load(Relaxed) {
            let ready = self.pop(me).or_else(|| match drawn {
                Some(_) => None,
                None => (0..self.ready.len()).find_map(|worker| self.pop(worker)),
            });
            let aggregate = match (ready, drawn) {
                (Some(tile), _) => {
                    let entry = &self.tiles[tile];
                    // SAFETY: the tile is complete, and this thread owns it: it took it off the
                    // ready stack.
                    let (prefix, kept) = unsafe { (entry.prefix.read(), entry.kept.read()) };
                    finish(tile, prefix.as_ref(), kept, drawn)
                }
                (None, Some(tile)) => Some(aggregate(tile)),
                // A tile that becomes ready later is finished by the thread that makes it ready.
                (None, None) => break,
            };
            if let (Some(tile), Some(aggregate)) = (drawn, aggregate) {
                drawn = draw();
                if !publish(tile, aggregate) {
                    parks_without_lingering = match parks_without_lingering {
                        0 if self.linger(me) => 0,
                        0 => PARKS_WITHOUT_LINGERING,
                        _ => parks_without_lingering - 1,
                    };
                }
            }
        }
        std::mem::forget(poison);
    }

    /// Polls briefly for a tile parked by this thread, and returns whether one became ready.
    fn linger(&self, me: usize) -> bool {
        let polls = if cfg!(any(loom, miri)) { 0 } else { LINGER };
        (0..polls).any(|_| {
            std::hint::spin_loop();
            self.ready[me].load(Relaxed) != NONE
        })
    }

    /// Extends the prefix of tile `mine`, which is complete, to the tiles after it, as far as their
    /// aggregates are written.
    fn extend_prefixes(&self, mine: usize, combine: &impl Fn(&S, &S) -> S, recruit: &impl Fn()) {
        let mut tile = mine;
        loop {
            let (entry, next) = (&self.tiles[tile], &self.tiles[tile + 1]);
            // SAFETY: `tile` is complete, and this thread owns it: it completed the tile, and has
            // not pushed it yet.
            let (prefix, aggregate) = unsafe { (entry.prefix.read(), entry.aggregate.read()) };
            let prefix = Some(extend(prefix.as_ref(), &aggregate, combine));
            // SAFETY: only the owner of `tile` writes the next prefix, and others read only after
            // `complete`.
            unsafe { next.prefix.write(prefix) };
            self.push(tile);
            if tile != mine {
                recruit();
            }
            if !next.complete() {
                break;
            }
            tile += 1;
        }
    }

    /// Pushes a complete tile onto the stack of the worker that drew it.
    fn push(&self, tile: usize) {
        // SAFETY: the tile is complete, and the caller owns it.
        let ready = &self.ready[unsafe { self.tiles[tile].drawer.read() }];
        let mut top = ready.load(Relaxed);
        loop {
            self.tiles[tile].below.store(top, Relaxed);
            // Release: the tile and its `below` are visible to the thread that pops it.
            match ready.compare_exchange_weak(top, tile, Release, Relaxed) {
                Ok(_) => return,
                Err(now) => top = now,
            }
        }
    }

    /// Pops a tile from a worker's stack. A tile is pushed once in its life, so an unchanged top
    /// means an unchanged stack: there is no ABA problem.
    fn pop(&self, worker: usize) -> Option<usize> {
        let ready = &self.ready[worker];
        let mut top = ready.load(Acquire);
        while top != NONE {
            let below = self.tiles[top].below.load(Relaxed);
            match ready.compare_exchange_weak(top, below, Acquire, Acquire) {
                Ok(_) => return Some(top),
                Err(now) => top = now,
            }
        }
        None
    }

    /// The prefix past the last tile, when all threads have ended.
    fn total(self) -> Option<S> {
        let end = &self.tiles[self.tiles.len() - 1];
        // SAFETY: the chain is owned, so no thread works on it, and all tiles were completed before
        // the last thread left.
        unsafe { end.prefix.read() }
    }
}

/// Tells the others to leave when a thread unwinds.
struct PoisonOnUnwind<'a>(&'a AtomicBool);

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Strings of up to 16 digits: concatenation is associative and not commutative.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Text(u64, u32);

    fn concat(a: &Text, b: &Text) -> Text {
        Text(a.0 << (4 * b.1) | b.0, a.1 + b.1)
    }

    /// The prefix that a tile was given, and its kept value.
    type Given = Option<(Option<Text>, usize)>;

    /// The prefix of each tile, and the total, if `threads` threads work on the chain. With `ahead`
    /// a tile is aggregated while another is finished.
    fn given(tiles: usize, first: Option<Text>, threads: usize, ahead: bool) -> (Vec<Given>, Option<Text>) {
        let seen = Mutex::new(vec![None; tiles]);
        let chain = Chain::new(tiles, first, threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    let aggregate = |tile| (Text(tile as u64 + 1, 1), 10 * tile);
                    chain.work(
                        &aggregate,
                        &concat,
                        &|tile, prefix, kept, next| {
                            let twice = seen.lock().unwrap()[tile].replace((prefix.copied(), kept));
                            assert_eq!(twice, None, "tile {tile} was finished twice");
                            next.filter(|_| ahead).map(aggregate)
                        },
                        || {},
                    );
                });
            }
        });
        (seen.into_inner().unwrap(), chain.total())
    }

    #[test]
    fn every_tile_is_given_its_prefix() {
        for first in [None, Some(Text(0xf, 1))] {
            for tiles in 0..=if cfg!(miri) { 4 } else { 12 } {
                let mut prefix = first;
                let expected: Vec<_> = (0..tiles)
                    .map(|tile| {
                        let this = Text(tile as u64 + 1, 1);
                        let before = prefix.replace(prefix.map_or(this, |prefix| concat(&prefix, &this)));
                        Some((before, 10 * tile))
                    })
                    .collect();
                for threads in 1..=3 {
                    for _ in 0..if cfg!(miri) { 2 } else { 50 } {
                        for ahead in [false, true] {
                            let given = given(tiles, first, threads, ahead);
                            assert_eq!(given, (expected.clone(), prefix), "{threads} threads");
                        }
                    }
                }
            }
        }
    }

    /// One thread takes the part of two. Tiles are completed in the worst order, and none is lost.
    #[test]
    fn parked_tiles_become_ready() {
        let chain = Chain::new(3, None, 2);
        for tile in [2, 1] {
            // SAFETY: one thread.
            unsafe { chain.tiles[tile].aggregate.write(tile as u32) };
            // SAFETY: one thread.
            unsafe { chain.tiles[tile].kept.write(()) };
            // SAFETY: one thread.
            unsafe { chain.tiles[tile].drawer.write(1) };
            assert!(!chain.tiles[tile].complete());
        }
        assert_eq!(chain.pop(1), None);
        // SAFETY: one thread.
        unsafe { chain.tiles[0].aggregate.write(100) };
        // SAFETY: one thread.
        unsafe { chain.tiles[0].drawer.write(0) };
        assert!(chain.tiles[0].complete());
        let recruited = std::cell::Cell::new(0);
        chain.extend_prefixes(0, &|a: &u32, b: &u32| 2 * a + b, &|| recruited.set(recruited.get() + 1));
        assert_eq!((recruited.get(), chain.pop(0)), (2, Some(0)));
        assert_eq!([chain.pop(1), chain.pop(1), chain.pop(1)], [Some(2), Some(1), None]);
        assert_eq!(chain.total(), Some((100 * 2 + 1) * 2 + 2));
    }

    #[test]
    fn a_panic_ends_the_work() {
        let chain = Chain::new(5, Some(0), 1);
        let finished = Mutex::new(vec![]);
        let work = || {
            chain.work(
                &|tile| (tile, ()),
                &|a, b| if *b == 2 { panic!("as asked") } else { a + b },
                &|tile, _, (), _| {
                    finished.lock().unwrap().push(tile);
                    None
                },
                || {},
            );
        };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        work();
        assert_eq!(finished.into_inner().unwrap(), [0, 1]);
    }
}

/// Interleavings of a few threads, beyond two tiles with bounded preemptions, and every value that their loads could
/// return:
/// `RUSTFLAGS="--cfg loom" cargo test --release -p parascan-loom`
#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use std::sync::atomic::AtomicU32;

    /// `threads` threads work on `tiles` tiles. Each tile must be finished once, with its prefix.
    fn model(threads: usize, tiles: usize, preemptions: Option<usize>) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemptions;
        builder.check(move || {
            let chain = Arc::new(Chain::new(tiles, Some(1u32), threads));
            // Not loom's atomic, which would order memory accesses.
            let finished = std::sync::Arc::new(AtomicU32::new(0));
            let work = {
                let (chain, finished) = (chain.clone(), finished.clone());
                move || {
                    let aggregate = |tile: usize| (tile as u32 + 2, 7 * tile);
                    chain.work(
                        &aggregate,
                        &|a, b| 10 * a + b,
                        &|tile, prefix, kept, next| {
                            assert_eq!(prefix.copied(), Some(prefix_of(tile)));
                            assert_eq!(kept, 7 * tile);
                            let others = finished.fetch_or(1 << tile, Relaxed);
                            assert_eq!(others & 1 << tile, 0, "tile {tile} was finished twice");
                            // Some tiles are aggregated ahead, and some are not.
                            next.filter(|next| next % 2 == 0).map(aggregate)
                        },
                        || {},
                    );
                }
            };
            let helpers: Vec<_> = (1..threads).map(|_| loom::thread::spawn(work.clone())).collect();
            work();
            helpers.into_iter().for_each(|helper| helper.join().unwrap());
            drop(work);
            assert_eq!(finished.load(Relaxed), (1 << tiles) - 1);
            let chain = Arc::try_unwrap(chain).ok().expect("all threads have left");
            assert_eq!(chain.total(), Some(prefix_of(tiles)));
        });
    }

    /// The digits 1, 2, 3 and so on.
    fn prefix_of(tile: usize) -> u32 {
        (1..=tile as u32 + 1).fold(0, |digits, digit| 10 * digits + digit)
    }

    #[test]
    fn loom_two_threads_two_tiles() {
        model(2, 2, None);
    }

    #[test]
    fn loom_two_threads_three_tiles() {
        model(2, 3, Some(7));
    }

    #[test]
    fn loom_two_threads_four_tiles() {
        model(2, 4, Some(3));
    }

    #[test]
    fn loom_three_threads_three_tiles() {
        model(3, 3, Some(3));
    }

    #[test]
    fn loom_three_threads_four_tiles() {
        model(3, 4, Some(2));
    }
}
