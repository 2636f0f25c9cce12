//! Segments of many lengths, what says where they begin, and their scans and reductions by plain loops.

use crate::{Options, Rng, Sample, noise, oracle_into, total};
use bytemuck::Pod;
use parascan::Operator;
use std::iter::once;
use std::ops::Range;

/// Distributions of segment lengths.
#[derive(Clone, Copy, Debug)]
pub enum Lengths {
    /// All the same.
    Fixed(usize),
    /// Any below this, so some are empty.
    Below(usize),
    /// Short ones, and one with half of all items.
    Half,
    /// Thousands of empty ones at both ends and in the middle.
    Empty,
    /// One with all items.
    One,
}

pub fn lengths(tile: usize) -> Vec<Lengths> {
    let mut all: Vec<_> = [1, 2, 3, 16, 31, 32, 33, 1000, tile - 1, tile, tile + 1].map(Lengths::Fixed).into();
    all.extend([Lengths::Below(2), Lengths::Below(40), Lengths::Below(5000)]);
    all.extend([Lengths::Half, Lengths::Empty, Lengths::One]);
    all
}

/// Segments of `n` items: the offsets of their begins, and of the last one's end.
#[derive(Debug)]
pub struct Segments {
    pub n: usize,
    pub offsets: Vec<usize>,
}

impl Segments {
    /// With `gaps` there are items before the first segment and behind the last.
    pub fn draw(rng: &mut Rng, n: usize, lengths: Lengths, gaps: bool) -> Segments {
        let (begin, end) = if gaps { (rng.below(n / 3 + 1), n - rng.below(n / 3 + 1)) } else { (0, n) };
        let mut offsets = vec![begin];
        if let Lengths::Empty = lengths {
            offsets.resize(3000, begin);
        }
        let half = begin + rng.below(n / 2 + 1);
        let mut at = begin;
        while at < end {
            at += match lengths {
                Lengths::Fixed(length) => length,
                Lengths::Below(length) => rng.below(length),
                Lengths::Half if (half..half + n / 2).contains(&(at + 40)) => n / 2,
                Lengths::Half => rng.below(40),
                Lengths::Empty => rng.below(100),
                Lengths::One => n,
            };
            offsets.push(at.min(end));
            if matches!(lengths, Lengths::Empty) && rng.below(n / 150 + 1) == 0 {
                offsets.resize(offsets.len() + 2000, at.min(end));
            }
        }
        if let Lengths::Empty = lengths {
            offsets.resize(offsets.len() + 4000, end);
        }
        Segments { n, offsets }
    }

    /// The rows of a matrix.
    pub fn rows(rows: usize, columns: usize) -> Segments {
        Segments { n: rows * columns, offsets: (0..=rows).map(|row| row * columns).collect() }
    }

    pub fn of_reduce(&self) -> impl Iterator<Item = Range<usize>> {
        self.offsets.windows(2).map(|pair| pair[0]..pair[1])
    }
    /// All items are in a segment, those before the first offset and from the last on too.
    pub fn of_scan(&self) -> impl Iterator<Item = Range<usize>> {
        let last = self.offsets[self.offsets.len() - 1];
        once(0..self.offsets[0]).chain(self.of_reduce()).chain(once(last..self.n))
    }

    pub fn any_empty(&self) -> bool {
        self.of_reduce().any(|segment| segment.is_empty())
    }

    pub fn offsets<I: Pod>(&self) -> Vec<I> {
        let all = self.offsets.iter().map(|&offset| offset as u64);
        match size_of::<I>() {
            4 => all.map(|offset| bytemuck::cast(offset as u32)).collect(),
            _ => all.map(|offset| bytemuck::cast(offset)).collect(),
        }
    }

    /// A flag an item, not zero where a segment begins. The flag of item 0 may be anything.
    pub fn flags(&self, rng: &mut Rng) -> Vec<u8> {
        let mut flags = vec![0; self.n];
        for segment in self.of_scan().filter(|segment| !segment.is_empty()) {
            flags[segment.start] = 1 << rng.below(8);
        }
        if let Some(first) = flags.first_mut() {
            *first = rng.below(2) as u8;
        }
        flags
    }

    /// The flags as bits, in words of `W`; those past the last are random.
    pub fn words<W: Pod>(&self, rng: &mut Rng) -> Vec<W> {
        let bits = 8 * size_of::<W>();
        let mut words: Vec<W> = noise(rng, self.n.div_ceil(bits));
        let bytes = bytemuck::cast_slice_mut::<W, u8>(&mut words);
        for (i, flag) in self.flags(rng).into_iter().enumerate() {
            bytes[i / 8] = bytes[i / 8] & !(1 << (i % 8)) | u8::from(flag != 0) << (i % 8);
        }
        words
    }

    /// Keys that differ from segment to segment in one bit.
    pub fn keys<K: Pod>(&self, rng: &mut Rng) -> Vec<K> {
        let (mut key, mut keys) = (noise::<K>(rng, 1)[0], Vec::with_capacity(self.n));
        for segment in self.of_scan().filter(|segment| !segment.is_empty()) {
            bytemuck::bytes_of_mut(&mut key)[rng.below(size_of::<K>())] ^= 1 << rng.below(8);
            keys.resize(segment.end, key);
        }
        keys
    }
}

pub fn scan_oracle<Op: Operator<T>, T: Sample>(x: &[T], segments: &Segments, options: Options<T>) -> Vec<T> {
    let mut output = vec![T::zeroed(); x.len()];
    for segment in segments.of_scan() {
        oracle_into::<Op, T>(&x[segment.clone()], &mut output[segment], options);
    }
    output
}

/// `none` is the result of an empty segment without one.
pub fn reduce_oracle<Op: Operator<T>, T: Sample>(x: &[T], segments: &Segments, init: Option<T>, none: T) -> Vec<T> {
    segments.of_reduce().map(|segment| total::<Op, T>(&x[segment], init).unwrap_or(none)).collect()
}

/// The result of each segment that has items, all items being in one.
pub fn runs_oracle<Op: Operator<T>, T: Sample>(x: &[T], segments: &Segments, init: Option<T>) -> Vec<T> {
    let with_items = segments.of_scan().filter(|segment| !segment.is_empty());
    with_items.map(|segment| total::<Op, T>(&x[segment], init).expect("it has items")).collect()
}
