//! The primitives at work on a text file, and how fast scans are:
//!
//! ```text
//! cargo run --release --example tour -- FILE
//! ```
//! Without FILE it reads a source file of this library, which it embeds. It runs on the GPU if
//! there is one, else on the CPU's cores (`CUDA_VISIBLE_DEVICES=` hides the GPU), and says which.
//! It prints
//!
//! - the file's lines: their ends, by compaction of the newlines,
//!   `compact::<u8>().keep(Equal(b'\n')).indices()`; the longest so far, the running maximum of
//!   their lengths, `scan::<Max, u32>()`; how many are not empty, `compact::<u32>().keep(NonZero)`;
//!   their texts without the line ends, one after the other, `pack::<u8, u64>()`; and the greatest
//!   byte of each, `reduce::<Max, u8>().segments(&offsets)`;
//! - its words: how often each occurs, by runs of equal hashes after a sort,
//!   `sort::<u64>().run_pairs_into()` and `unique::<u64>().indices()`; and the ten most frequent,
//!   `sort::<u32>().descending().run_pairs_into()`;
//! - its commas inside and outside of quotes, by the parity of the quotes up to each byte,
//!   `scan::<BitXor, u8>()`;
//! - the records and fields of a generated CSV, by the same scan;
//! - GB/s of a running maximum and of a sum over 2^24 elements (CPU) or 2^28 (GPU), beside a
//!   copy's.
//!
//! Every result is compared with a plain loop's; a difference ends it with exit code 1.

use parascan::cudarc::driver::sys::CUevent_flags;
use parascan::cudarc::driver::{CudaEvent, CudaSlice, CudaStream, DeviceRepr, DriverError};
use parascan::{BitXor, Destination, Device, Element, Equal, Error, Host, Max, NonZero, Operator, Place, Scan};
use parascan::{Source, Sum, Workspace, compact, cuda, pack, reduce, scan, sort, unique};
use rayon::prelude::*;
use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;
use std::{env, fs, io, process};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    match tour() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("tour: {e}");
            ExitCode::FAILURE
        }
    }
}

fn tour() -> Outcome<()> {
    let (name, text) = match env::args_os().nth(1) {
        Some(file) => {
            let name = file.to_string_lossy().into_owned();
            let text = fs::read(&file).map_err(|e| format!("{name}: {e}"))?;
            (name, text)
        }
        None => ("primitives/scan.rs".to_owned(), include_bytes!("../primitives/scan.rs").to_vec()),
    };
    match cuda::context(0) {
        Ok(context) => {
            let stream = context.new_stream()?;
            let engine = Gpu { workspace: Workspace::new(&stream), stream };
            stops(engine, &context.name()?, &name, &text)
        }
        Err(Error::NoDriver { .. } | Error::NoDevice { .. }) => {
            stops(Cpu, &format!("{} CPU threads, no GPU found", rayon::current_num_threads()), &name, &text)
        }
        Err(e) => Err(e.into()),
    }
}

fn stops(mut engine: impl Engine, place: &str, name: &str, text: &[u8]) -> Outcome<()> {
    say(&format!("{name}, {} bytes, on {place}\n", grouped(text.len())));
    lines(&mut engine, text)?;
    words(&mut engine, text)?;
    quotes(&mut engine, text)?;
    csv(&mut engine)?;
    speed(&mut engine)?;
    say("\nEvery result is the same as a plain loop's.");
    Ok(())
}

// ---- lines --------------------------------------------------------------------------------------

fn lines<E: Engine>(engine: &mut E, text: &[u8]) -> Outcome<()> {
    say("Lines");
    if text.is_empty() {
        say("  none, the file is empty\n");
        return Ok(());
    }
    // The indices of the newlines. From here on all inputs and outputs lie where the engine works.
    let bytes = engine.upload(text)?;
    let newlines = compact::<u8>().keep(Equal(b'\n')).indices::<u64, _>(&bytes)?;
    let newlines = engine.download(&newlines)?;
    let expected: Vec<u64> = (0..).zip(text).filter(|&(_, &byte)| byte == b'\n').map(|(i, _)| i).collect();
    same("the newlines", &newlines, &expected)?;

    // Each line's begin, and its length without its end: \n, \r\n or the end of the file.
    let (mut begins, mut lengths) = (Vec::new(), Vec::new());
    let mut begin = 0;
    let end_of_file = (!text.ends_with(b"\n")).then_some(text.len() as u64);
    for end in newlines.into_iter().chain(end_of_file) {
        let line = &text[begin as usize..end as usize];
        begins.push(begin);
        lengths
            .push(u32::try_from(line.strip_suffix(b"\r").unwrap_or(line).len()).map_err(|_| "a line of 4 GB or more")?);
        begin = end + 1;
    }

    let longest = checked(engine, "the running maximum", scan::<Max, u32>(), &lengths)?;
    let records: Vec<usize> = (0..lengths.len()).filter(|&i| i == 0 || longest[i] > longest[i - 1]).collect();

    let (at, sizes) = (engine.upload(&begins)?, engine.upload(&lengths)?);
    let not_empty = compact::<u32>().keep(NonZero).indices::<u64, _>(&sizes)?;
    let not_empty = engine.download(&not_empty)?;
    let expected: Vec<u64> = (0..).zip(&lengths).filter(|&(_, &length)| length != 0).map(|(i, _)| i).collect();
    same("the lines that are not empty", &not_empty, &expected)?;

    // An empty line has no bytes to move, and begins where the next line does.
    let (packed, offsets) = pack::<u8, u64>().run(&bytes, &at, &sizes)?;
    // The greatest byte of each line: above 127 in a line that is not all ASCII.
    let greatest = reduce::<Max, u8>().segments(&offsets).run(&packed)?;
    let greatest = engine.download(&greatest)?;
    let (packed, offsets) = (engine.download(&packed)?, engine.download(&offsets)?);
    let (mut expected, mut starts) = (Vec::new(), vec![0]);
    for (&begin, &length) in begins.iter().zip(&lengths) {
        expected.extend_from_slice(&text[begin as usize..][..length as usize]);
        starts.push(expected.len() as u64);
    }
    same("the packed lines", &packed, &expected)?;
    same("the offsets of the packed lines", &offsets, &starts)?;
    let line = |ends: &[u64]| &packed[ends[0] as usize..ends[1] as usize];
    let expected: Vec<u8> = starts.windows(2).map(|ends| line(ends).iter().copied().max().unwrap_or(0)).collect();
    same("the greatest byte of each line", &greatest, &expected)?;
    let ascii = greatest.iter().filter(|&&byte| byte < 128).count();

    let (last, middle) = (records[records.len() - 1], lengths.len() / 2);
    let middle_line = format!("{} begins at byte {}", grouped(middle + 1), grouped(begins[middle] as usize));
    row("lines", grouped(lengths.len()), "compaction of the newlines");
    row("the middle line", middle_line, "");
    row("longest", format!("{} bytes, line {}", grouped(longest[last] as usize), grouped(last + 1)), "running maximum");
    row("records on the way", grouped(records.len()), "where the maximum steps");
    row("not empty", grouped(not_empty.len()), "compaction of the lengths");
    row("bytes in them", grouped(packed.len()), "packed, without line ends");
    row("all ASCII", grouped(ascii), "the greatest byte of each line, by segments");
    let there = format!("begins at byte {}", grouped(offsets[middle] as usize));
    row("middle one, packed", there, "the packed lines' offsets");
    say("");
    Ok(())
}

// ---- words --------------------------------------------------------------------------------------

fn words<E: Engine>(engine: &mut E, text: &[u8]) -> Outcome<()> {
    say("Words");
    let words: Vec<&[u8]> =
        text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_').filter(|word| !word.is_empty()).collect();
    let hash = |word: &&[u8]| {
        let mut hasher = DefaultHasher::new();
        word.hash(&mut hasher);
        hasher.finish()
    };
    let hashes: Vec<u64> = words.iter().map(hash).collect();
    let numbers: Vec<u32> = (0..u32::try_from(words.len()).map_err(|_| "more than 2^32 words")?).collect();

    // The sort brings equal words together. It is stable, so the first item of a run is the word's
    // first occurrence.
    let (keys, values) = (engine.upload(&hashes)?, engine.upload(&numbers)?);
    let (mut sorted, mut order) = (engine.upload(&hashes)?, engine.upload(&numbers)?);
    sort::<u64>().run_pairs_into(&keys, &values, &mut sorted, &mut order)?;
    let begins = engine.download(&unique::<u64>().indices::<u64, _>(&sorted)?)?;
    let order = engine.download(&order)?;
    let ends = begins.iter().skip(1).copied().chain([words.len() as u64]);
    let counts: Vec<u32> = begins.iter().zip(ends).map(|(&begin, end)| (end - begin) as u32).collect();
    // The most frequent first: the runs' numbers, sorted by their counts.
    let (keys, runs) = (engine.upload(&counts)?, engine.upload(&numbers[..counts.len()])?);
    let (mut sorted, mut most) = (engine.upload(&counts)?, engine.upload(&numbers[..counts.len()])?);
    sort::<u32>().descending().run_pairs_into(&keys, &runs, &mut sorted, &mut most)?;
    let most = engine.download(&most)?;

    let mut expected: HashMap<&[u8], (u32, usize)> = HashMap::new();
    for (i, word) in words.iter().enumerate() {
        expected.entry(word).or_insert((0, i)).0 += 1;
    }
    let mut found: Vec<(&[u8], (u32, usize))> = Vec::new();
    for &run in &most {
        let first = order[begins[run as usize] as usize] as usize;
        found.push((words[first], (counts[run as usize], first)));
    }
    if found.len() != expected.len() || found.iter().any(|(word, counted)| expected.get(word) != Some(counted)) {
        return Err("the words were counted otherwise than by a HashMap".into());
    }
    if !found.is_sorted_by_key(|&(_, (count, _))| std::cmp::Reverse(count)) {
        return Err("the words are not in the order of their counts".into());
    }
    row("words", grouped(words.len()), "");
    row("different ones", grouped(found.len()), "runs of equal hashes, sorted");
    for (word, (count, first)) in found.iter().take(10) {
        let word = String::from_utf8_lossy(word);
        row(&word, grouped(*count as usize), &format!("the first is word {}", grouped(first + 1)));
    }
    say("");
    Ok(())
}

// ---- quotes -------------------------------------------------------------------------------------

/// Whether each byte lies in double quotes: the parity of the quotes up to it. (A doubled quote
/// within quotes leaves and enters again.)
fn quoted(engine: &mut impl Engine, text: &[u8]) -> Outcome<Vec<u8>> {
    let quotes: Vec<u8> = text.iter().map(|&byte| u8::from(byte == b'"')).collect();
    checked(engine, "the quotes", scan::<BitXor, u8>(), &quotes)
}

fn quotes(engine: &mut impl Engine, text: &[u8]) -> Outcome<()> {
    let quoted = quoted(engine, text)?;
    let count = |byte: u8, inside: u8| text.iter().zip(&quoted).filter(|&pair| pair == (&byte, &inside)).count();
    let inside = quoted.iter().filter(|inside| **inside == 1).count();
    let share = 100.0 * inside as f64 / text.len().max(1) as f64;
    say("Quotes");
    row("bytes in quotes", format!("{}, {share:.1} %", grouped(inside)), "parity of the quotes so far, by xor");
    row("commas in quotes", grouped(count(b',', 1)), "");
    row("commas outside", grouped(count(b',', 0)), "");
    say("");
    Ok(())
}

/// A CSV with commas, quotes and line ends within its fields.
fn csv(engine: &mut impl Engine) -> Outcome<()> {
    const RECORDS: usize = 100_000;
    let mut text = String::new();
    for i in 0..RECORDS {
        let end = if i % 2 == 0 { "\n" } else { "\r\n" };
        let note = ["plain", "\"sold, then returned\"", "\"said \"\"no, thanks\"\"\"", "\"two\nlines\""][i % 4];
        write!(text, "{i},\"Doe, {i}\",{note},{}.50{end}", i % 90)?;
    }
    let text = text.trim_end().as_bytes(); // no line end after the last record

    let quoted = quoted(engine, text)?;
    let outside = |wanted: u8| text.iter().zip(&quoted).filter(|&pair| pair == (&wanted, &0)).count();
    let records = outside(b'\n') + 1;
    let fields = outside(b',') + records;
    let naive = text.split(|byte| b",\n".contains(byte)).count();
    if (records, fields) != (RECORDS, 4 * RECORDS) {
        return Err(
            format!("the CSV has {RECORDS} records of 4 fields, and {records} and {fields} were counted").into()
        );
    }
    say("A CSV made here, such as: 2,\"Doe, 2\",\"said \"\"no, thanks\"\"\",2.50");
    row("records", grouped(records), "line ends outside of quotes");
    row("fields", grouped(fields), "commas outside of quotes");
    row("split everywhere", format!("{}, wrong", grouped(naive)), "what quotes are for");
    say("");
    Ok(())
}

// ---- speed --------------------------------------------------------------------------------------

fn speed<E: Engine>(engine: &mut E) -> Outcome<()> {
    say(&format!("2^{} random elements, GB/s read and written, median of {RUNS}", E::LOG2));
    // Sums of whole numbers are exact in any order, so a loop's have the same bits.
    let float = |z: u64| (z % 201) as f32 - 100.0;
    compare::<i32, E>(engine, "i32", |z| z as i32)?;
    compare::<f32, E>(engine, "f32", float)
}

const RUNS: usize = 9;

/// A call to time; the last argument is its output.
type Step<'a, E, T> = &'a mut dyn FnMut(&mut E, &mut <E as Engine>::Memory<T>) -> Outcome<()>;

fn compare<T: Value, E: Engine>(engine: &mut E, of: &str, draw: fn(u64) -> T) -> Outcome<()>
where
    Max: Operator<T>,
    Sum: Operator<T>,
{
    let host: Vec<T> = (0..1usize << E::LOG2).into_par_iter().map(|i| draw(noise(i))).collect();
    let input = engine.upload(&host)?;
    let mut output = engine.upload(&host)?;
    let bytes = 2.0 * size_of_val(&host[..]) as f64;
    let mut time = |what: &str, copy: Option<f64>, run: Step<E, T>| {
        run(engine, &mut output)?; // warm up
        let mut seconds = Vec::new();
        for _ in 0..RUNS {
            let begun = engine.mark()?;
            run(engine, &mut output)?;
            seconds.push(engine.seconds_since(begun)?);
        }
        seconds.sort_by(f64::total_cmp);
        let rate = bytes / seconds[RUNS / 2] / 1e9;
        let share = copy.map_or(String::new(), |copy| format!("{:.0} % of the copy", 100.0 * rate / copy));
        row(&format!("{what} {of}"), format!("{rate:.1} GB/s"), &share);
        Ok::<_, Box<dyn std::error::Error>>((rate, engine.download(&output)?))
    };
    let (copy, copied) = time("copy", None, &mut |engine, output| engine.copy(&input, output))?;
    same("the copy", &copied, &host)?;
    let run = &mut |engine: &mut E, output: &mut _| engine.scan(scan::<Max, T>(), &input, output);
    same("the maxima", &time("running maximum", Some(copy), run)?.1, &looped::<Max, T>(&host))?;
    let run = &mut |engine: &mut E, output: &mut _| engine.scan(scan::<Sum, T>(), &input, output);
    same("the sums", &time("running sum", Some(copy), run)?.1, &looped::<Sum, T>(&host))
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
fn noise(i: usize) -> u64 {
    let z = (i as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

// ---- the two engines ----------------------------------------------------------------------------

/// An element type of the tour's arrays.
trait Value: Element + DeviceRepr + PartialEq + Debug {}
impl<T: Element + DeviceRepr + PartialEq + Debug> Value for T {}

/// A place for data and work. The library's calls are the same on both; moving and timing are not.
trait Engine {
    type Place: Place<Indices<u64> = Self::Memory<u64>>;
    type Memory<T: Value>: Source<T, Place = Self::Place, Owned = Self::Memory<T>> + Destination<T, Self::Place>;
    type Mark;
    /// Elements that take long enough to be timed.
    const LOG2: u32;
    fn upload<T: Value>(&self, data: &[T]) -> Outcome<Self::Memory<T>>;
    fn download<T: Value>(&self, memory: &Self::Memory<T>) -> Outcome<Vec<T>>;
    fn copy<T: Value>(&self, from: &Self::Memory<T>, to: &mut Self::Memory<T>) -> Outcome<()>;
    /// Scans with a workspace, on the GPU.
    fn scan<Op: Operator<T>, T: Value>(
        &mut self,
        scan: Scan<Op, T>,
        from: &Self::Memory<T>,
        to: &mut Self::Memory<T>,
    ) -> Outcome<()>;
    fn mark(&self) -> Outcome<Self::Mark>;
    fn seconds_since(&self, mark: Self::Mark) -> Outcome<f64>;
}

struct Cpu;

impl Engine for Cpu {
    type Place = Host;
    type Memory<T: Value> = Vec<T>;
    type Mark = Instant;
    const LOG2: u32 = 24;

    fn upload<T: Value>(&self, data: &[T]) -> Outcome<Vec<T>> {
        Ok(data.to_vec())
    }
    fn download<T: Value>(&self, memory: &Vec<T>) -> Outcome<Vec<T>> {
        Ok(memory.clone())
    }
    /// Copies on as many threads as the scan.
    fn copy<T: Value>(&self, from: &Vec<T>, to: &mut Vec<T>) -> Outcome<()> {
        let part = from.len().div_ceil(rayon::current_num_threads()).max(1);
        to.par_chunks_mut(part).zip(from.par_chunks(part)).for_each(|(to, from)| to.copy_from_slice(from));
        Ok(())
    }
    fn scan<Op: Operator<T>, T: Value>(&mut self, scan: Scan<Op, T>, from: &Vec<T>, to: &mut Vec<T>) -> Outcome<()> {
        Ok(scan.run_into(from, to)?)
    }
    fn mark(&self) -> Outcome<Instant> {
        Ok(Instant::now())
    }
    fn seconds_since(&self, mark: Instant) -> Outcome<f64> {
        Ok(mark.elapsed().as_secs_f64())
    }
}

struct Gpu {
    stream: Arc<CudaStream>,
    workspace: Workspace,
}

impl Gpu {
    fn event(&self) -> Result<CudaEvent, DriverError> {
        self.stream.record_event(Some(CUevent_flags::CU_EVENT_DEFAULT))
    }
}

impl Engine for Gpu {
    type Place = Device;
    type Memory<T: Value> = CudaSlice<T>;
    type Mark = CudaEvent;
    const LOG2: u32 = 28;

    fn upload<T: Value>(&self, data: &[T]) -> Outcome<CudaSlice<T>> {
        // The library takes empty arrays; the driver does not allocate them.
        Ok(if data.is_empty() { self.stream.null()? } else { self.stream.clone_htod(data)? })
    }
    fn download<T: Value>(&self, memory: &CudaSlice<T>) -> Outcome<Vec<T>> {
        if memory.is_empty() {
            return Ok(Vec::new());
        }
        let data = self.stream.clone_dtoh(memory)?;
        self.stream.synchronize()?;
        Ok(data)
    }
    fn copy<T: Value>(&self, from: &CudaSlice<T>, to: &mut CudaSlice<T>) -> Outcome<()> {
        Ok(self.stream.memcpy_dtod(from, to)?)
    }
    fn scan<Op: Operator<T>, T: Value>(
        &mut self,
        scan: Scan<Op, T>,
        from: &CudaSlice<T>,
        to: &mut CudaSlice<T>,
    ) -> Outcome<()> {
        Ok(scan.workspace(&mut self.workspace).run_into(from, to)?)
    }
    fn mark(&self) -> Outcome<CudaEvent> {
        Ok(self.event()?)
    }
    fn seconds_since(&self, mark: CudaEvent) -> Outcome<f64> {
        Ok(f64::from(mark.elapsed_ms(&self.event()?)?) * 1e-3)
    }
}

// ---- checks and words ---------------------------------------------------------------------------

/// Scans `input` and compares the result with a loop's.
fn checked<Op: Operator<T>, T: Value, E: Engine>(
    engine: &mut E,
    what: &str,
    scan: Scan<Op, T>,
    input: &[T],
) -> Outcome<Vec<T>> {
    let from = engine.upload(input)?;
    let mut to = engine.upload(input)?;
    engine.scan(scan, &from, &mut to)?;
    let got = engine.download(&to)?;
    same(what, &got, &looped::<Op, T>(input))?;
    Ok(got)
}

/// The scan as a plain loop.
fn looped<Op: Operator<T>, T: Value>(input: &[T]) -> Vec<T> {
    let mut upto = None;
    let step = |x: &T| {
        let item = Op::lift(*x);
        let next = upto.map_or(item, |before| Op::combine(before, item));
        upto = Some(next);
        Op::lower(next)
    };
    input.iter().map(step).collect()
}

fn same<T: Value>(what: &str, got: &[T], expected: &[T]) -> Outcome<()> {
    match (0..expected.len()).find(|&i| got.get(i) != Some(&expected[i])) {
        None if got.len() == expected.len() => Ok(()),
        None => Err(format!("{what}: {} items instead of {}", got.len(), expected.len()).into()),
        Some(i) => Err(format!("{what}: item {i} is {:?} and a plain loop gives {:?}", got.get(i), expected[i]).into()),
    }
}

fn row(what: &str, value: impl AsRef<str>, how: &str) {
    say(format!("  {what:<20}{:<32}{how}", value.as_ref()).trim_end());
}

/// Prints a line. A closed pipe, as of `head`, is no error.
fn say(line: &str) {
    if writeln!(io::stdout(), "{line}").is_err() {
        process::exit(0);
    }
}

/// Formats 1234567 as 1 234 567.
fn grouped(n: usize) -> String {
    let digits = n.to_string();
    let begins = |i: usize| i > 0 && (digits.len() - i).is_multiple_of(3);
    digits.char_indices().flat_map(|(i, digit)| [begins(i).then_some(' '), Some(digit)]).flatten().collect()
}
