//! Pack and expand. Threads take equal parts of the output, and find the first segment of a part by
//! search.

use super::offsets::Offset;
use super::threshold;
use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};

/// Bytes of a part: half of an L2 cache of 1 MiB, and worth a thread's start.
const PART_BYTES: usize = threshold(512 << 10);

/// Items of a part: one at least, however large.
fn part<T>() -> usize {
    (PART_BYTES / size_of::<T>().max(1)).max(1)
}

/// The segments' positions in the output: segment i begins at offset i and ends at the next,
/// relative to the first offset.
#[derive(Clone, Copy)]
struct Segments<'a, O> {
    offsets: &'a [O],
}

impl<O: Offset> Segments<'_, O> {
    fn offset(&self, i: usize) -> u64 {
        self.offsets[i].widen().saturating_sub(self.offsets[0].widen())
    }

    /// Calls `piece(segment, position in the segment, items)` for the output from `from` up to
    /// `to`, in order.
    fn pieces(&self, from: u64, to: u64, mut piece: impl FnMut(usize, u64, u64)) {
        let (base, n, mut i, mut at) = (self.offsets[0].widen(), self.offsets.len() - 1, 0, from);
        while at < to {
            // The first segment that ends after `at`: the next one, or a later one if segments are
            // empty.
            if i == 0 || self.offset(i + 1) <= at {
                i += self.offsets[i + 1..].partition_point(|end| end.widen().saturating_sub(base) <= at);
            }
            if i >= n {
                return;
            }
            let end = self.offset(i + 1).min(to);
            if end <= at {
                return; // the offsets are not in order
            }
            piece(i, at - self.offset(i).min(at), end - at);
            at = end;
            i += 1;
            if i >= n {
                return;
            }
        }
    }
}

/// The number of items of all segments.
///
/// # Errors
/// The end of the first segment that reaches past the `len` items.
pub(crate) fn total<S: super::Size, O: Offset>(len: usize, begins: &[O], sizes: &[S]) -> Result<u128, u64> {
    /// Segments that are worth a thread's start.
    const JOB: usize = 1 << 14;
    let part = |(begins, sizes): (&[O], &[S])| {
        begins.iter().zip(sizes).try_fold(0, |total, (begin, size)| {
            let (end, size) = (begin.widen().saturating_add(size.widen()), size.widen());
            if end > len as u64 && size > 0 { Err(end) } else { Ok(total + u128::from(size)) }
        })
    };
    let begins = &begins[..sizes.len()];
    if sizes.len() < self::part::<S>() {
        return part((begins, sizes));
    }
    let parts = begins.par_chunks(JOB).zip(sizes.par_chunks(JOB)).map(part);
    parts.reduce(|| Ok(0), |earlier, later| earlier.and_then(|sum| later.map(|more| sum + more)))
}

/// Packs segments: segment i is the items from `begins[i]` on. Offsets are one more than segments.
///
/// # Panics
/// If a segment reaches past the end of the items.
pub(crate) fn pack<T: Copy + Send + Sync, O: Offset>(items: &[T], begins: &[O], offsets: &[O], output: &mut [T]) {
    if size_of::<T>() == 0 {
        return; // there may be more items than time to count them
    }
    let segments = Segments { offsets };
    let part = part::<T>();
    let pack_part = |k: usize, output: &mut [T]| {
        let first = (k * part) as u64;
        segments.pieces(first, first + output.len() as u64, |i, position, count| {
            let from = (begins[i].widen() + position) as usize;
            let to = (segments.offset(i) + position - first) as usize;
            output[to..to + count as usize].copy_from_slice(&items[from..from + count as usize]);
        });
    };
    if output.len() <= part {
        return pack_part(0, output);
    }
    output.par_chunks_mut(part).enumerate().for_each(|(k, output)| pack_part(k, output));
}

/// The segment of each output item, and its position in the segment.
pub(crate) fn expand<O: Offset, I: Offset>(offsets: &[O], segment_of: &mut [I], positions: Option<&mut [I]>) {
    let segments = Segments { offsets };
    let total = segments.offset(offsets.len() - 1).min(segment_of.len() as u64) as usize;
    let part = part::<I>();
    let expand_part = |k: usize, segment_of: &mut [I], positions: Option<&mut [I]>| {
        let first = (k * part) as u64;
        let mut positions = positions;
        let mut at = 0;
        segments.pieces(first, first + segment_of.len() as u64, |i, position, count| {
            let items = at..at + count as usize;
            at = items.end;
            segment_of[items.clone()].fill(I::narrow(i as u64));
            if let Some(positions) = &mut positions {
                positions[items].iter_mut().zip(position..).for_each(|(to, position)| *to = I::narrow(position));
            }
        });
    };
    let segment_of = &mut segment_of[..total];
    match positions {
        None if total <= part => expand_part(0, segment_of, None),
        None => {
            segment_of.par_chunks_mut(part).enumerate().for_each(|(k, segment_of)| expand_part(k, segment_of, None))
        }
        Some(positions) if total <= part => expand_part(0, segment_of, Some(positions)),
        Some(positions) => {
            let parts = segment_of.par_chunks_mut(part).zip(positions[..total].par_chunks_mut(part));
            parts.enumerate().for_each(|(k, (segment_of, positions))| expand_part(k, segment_of, Some(positions)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::random::Rng;

    /// Sizes of long, short and empty segments.
    fn sizes(seed: u64) -> Vec<u32> {
        let mut rng = Rng::from_seed(seed);
        let sizes = (0..2000).map(|_| match rng.below(100) {
            0 => rng.below(70_000) as u32,
            1..50 => 0,
            _ => rng.below(9) as u32,
        });
        let mut sizes: Vec<u32> = sizes.collect();
        sizes.splice(1000..1000, std::iter::repeat_n(0, 5000));
        sizes
    }

    #[test]
    fn pack_and_expand_agree_with_loops() {
        for seed in 1..5 {
            let sizes = sizes(seed);
            let mut offsets = vec![7_u64];
            let (mut segments, mut positions) = (vec![], vec![]);
            for (i, &size) in sizes.iter().enumerate() {
                offsets.push(offsets[i] + u64::from(size));
                segments.extend((0..size).map(|_| i as u32));
                positions.extend(0..size);
            }
            let (mut of, mut at) = (vec![9; segments.len() + 3], vec![9; segments.len() + 3]);
            expand(&offsets, &mut of, Some(&mut at));
            assert!(of[..segments.len()] == segments && at[..segments.len()] == positions);
            assert_eq!((&of[segments.len()..], &at[segments.len()..]), (&[9; 3][..], &[9; 3][..]));
            of.fill(9);
            expand(&offsets, &mut of[..segments.len() / 2], None);
            assert!(of[..segments.len() / 2] == segments[..segments.len() / 2]);
            assert!(of[segments.len() / 2..].iter().all(|&i| i == 9));

            // Packed from another order.
            let items: Vec<u16> = (0..segments.len() + 70_000).map(|i| (i * 40_503) as u16).collect();
            let begins: Vec<u64> = (0..sizes.len()).map(|i| (i * 7919) as u64 % segments.len() as u64).collect();
            let packed: Vec<u16> = segments
                .iter()
                .zip(&positions)
                .map(|(&i, &at)| items[begins[i as usize] as usize + at as usize])
                .collect();
            let mut output = vec![0; segments.len()];
            pack(&items, &begins, &offsets, &mut output);
            assert!(output == packed);
            assert_eq!(total(items.len(), &begins, &sizes), Ok(segments.len() as u128));
            let not_empty = sizes.iter().zip(&begins).filter(|(size, _)| **size > 0);
            let far = not_empty.map(|(&size, &begin)| begin + u64::from(size)).max().unwrap();
            assert_eq!(total(far as usize - 1, &begins, &sizes), Err(far));
        }
    }

    /// More segments than one thread sums: the sum is exact, and the error names the first segment
    /// that reaches too far.
    #[test]
    fn totals_of_many_segments() {
        let n = 5 * (1 << 14) + 4711;
        let begins = vec![0_u64; n + 3];
        let mut sizes = vec![u64::MAX; n];
        assert_eq!(total(usize::MAX, &begins, &sizes), Ok(n as u128 * u128::from(u64::MAX)));
        sizes.fill(3);
        assert_eq!(total(3, &begins, &sizes), Ok(3 * n as u128));
        (sizes[70_000], sizes[20_000]) = (9, 7);
        assert_eq!(total(6, &begins, &sizes), Err(7));
        assert_eq!(total(7, &begins, &sizes), Err(9));
        assert_eq!(total(9, &begins, &sizes), Ok(3 * n as u128 + 10));
    }

    /// Offsets that are not in order may give any output, and must not panic or write out of
    /// bounds.
    #[test]
    fn offsets_in_no_order() {
        for offsets in [vec![0_u32, 9, 3, 12], vec![5, 4, 3, 8], vec![3], vec![0, 0, u32::MAX, 1, 7]] {
            expand(&offsets, &mut [0_u64; 20], Some(&mut [0; 20]));
        }
    }
}
