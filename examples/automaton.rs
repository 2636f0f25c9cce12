//! Finite automata as scans: which bytes of a JSON text are in strings, and whether a text is
//! UTF-8.
//!
//! ```sh
//! cargo run --release --example automaton [FILE]
//! ```
//! A byte is a function from the state before it to the state after it. Composition of functions is
//! associative, so the states after all bytes are a scan of functions, whatever state a tile begins
//! in (Hillis and Steele 1986, "Data parallel algorithms"). The functions are never stored: the
//! scan reads bytes, carries functions and writes the state after each byte.

use parascan::cudarc::driver::CudaStream;
use parascan::operators::{Compose, Transitions};
use parascan::{Operator, cuda, scan};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let stream = match cuda::context(0) {
        Ok(context) => Some(context.new_stream()?),
        Err(e) => {
            println!("no GPU, so on the CPU alone: {e}\n");
            None
        }
    };
    let text = match std::env::args().nth(1) {
        Some(file) => std::fs::read(file)?,
        None => json(16 << 20),
    };
    println!("{} bytes", text.len());

    let states = on_both::<Strings>("inside strings", &text, sequential_strings, stream.as_ref())?;
    let inside = states.iter().filter(|&&state| state != OUTSIDE).count();
    println!("    {inside} bytes are inside strings\n");

    let states = on_both::<Utf8>("UTF-8", &text, sequential_utf8, stream.as_ref())?;
    let is_valid = states.last().is_none_or(|&state| state == 0);
    assert_eq!(is_valid, std::str::from_utf8(&text).is_ok());
    println!("    it is {}UTF-8", if is_valid { "" } else { "not " });

    let mut broken = text;
    let middle = broken.len() / 2;
    if let Some(byte) = broken.get_mut(middle) {
        *byte = 0xff;
        let states =
            on_both::<Utf8>("UTF-8, with a byte that never occurs in it", &broken, sequential_utf8, stream.as_ref())?;
        let first = states.iter().position(|&state| state == INVALID);
        println!("    the first byte that is wrong is number {first:?}");
    }
    Ok(())
}

// ---- strings of JSON ----------------------------------------------------------------------------

const OUTSIDE: u8 = 0;
const INSIDE: u8 = 1;
const ESCAPED: u8 = 2; // after a backslash in a string

const QUOTE: Transitions = Transitions::new([INSIDE, OUTSIDE, INSIDE, 3, 4, 5, 6, 7]);
const BACKSLASH: Transitions = Transitions::new([OUTSIDE, ESCAPED, INSIDE, 3, 4, 5, 6, 7]);
const OTHER: Transitions = Transitions::new([OUTSIDE, INSIDE, INSIDE, 3, 4, 5, 6, 7]);
// The CUDA text below uses these bits.
const _: () =
    assert!(QUOTE.packed() == 0x7654_3101 && BACKSLASH.packed() == 0x7654_3120 && OTHER.packed() == 0x7654_3110,);

parascan::operator! {
    /// Writes the state after each byte.
    struct Strings on u8 {
        associativity: Exact,
        carry: Transitions,
        identity: Transitions::new([0, 1, 2, 3, 4, 5, 6, 7]),
        // SAFETY: the texts compare and combine bits, and are defined for all bytes and all words.
        lift: |byte| match byte {
            b'"' => QUOTE,
            b'\\' => BACKSLASH,
            _ => OTHER,
        } => unsafe "{ x == '\"' ? 0x76543101u : x == '\\\\' ? 0x76543120u : 0x76543110u }",
        lower: |f| f.after(OUTSIDE) => unsafe "Element(x.packed & 7)",
        combine: |f, g| <Compose as Operator<Transitions>>::combine(f, g)
            => unsafe <Compose as Operator<Transitions>>::CUDA.text(),
    }
}

fn sequential_strings(text: &[u8]) -> Vec<u8> {
    let mut state = OUTSIDE;
    let step = |&byte: &u8| {
        state = match (state, byte) {
            (OUTSIDE, b'"') => INSIDE,
            (OUTSIDE, _) | (INSIDE, b'"') => OUTSIDE,
            (INSIDE, b'\\') => ESCAPED,
            _ => INSIDE,
        };
        state
    };
    text.iter().map(step).collect()
}

// ---- UTF-8 --------------------------------------------------------------------------------------

/// The state after a byte: the number of bytes still to come of the character, or this.
const INVALID: u8 = 4;

parascan::element! {
    /// Two automata side by side; a single one would need nine states.
    struct Pair {
        /// 0 to 3 bytes to come, or 4: invalid.
        length: Transitions,
        /// The condition on the next byte: 0 none, 1 above 0x9f, 2 below 0xa0, 3 above 0x8f, 4
        /// below 0x90; or 5: invalid.
        second: Transitions,
    }
}

/// The transitions of a byte in the two automata.
fn utf8(byte: u8) -> Pair {
    let length = match byte {
        0x00..=0x7f => 0x7654_4440,
        0x80..=0xbf => 0x7654_2104,
        0xc2..=0xdf => 0x7654_4441,
        0xe0..=0xef => 0x7654_4442,
        0xf0..=0xf4 => 0x7654_4443,
        _ => 0x7654_4444,
    };
    let next = match byte {
        0xe0 => 1,
        0xed => 2,
        0xf0 => 3,
        0xf4 => 4,
        _ => 0,
    };
    let allowed = [true, byte >= 0xa0, byte < 0xa0, byte >= 0x90, byte < 0x90];
    let second = std::array::from_fn(|s| match allowed.get(s) {
        Some(true) => next,
        Some(false) => 5,
        None => s as u8,
    });
    Pair {
        length: Transitions::new(std::array::from_fn(|s| (length >> (4 * s) & 7) as u8)),
        second: Transitions::new(second),
    }
}

const UTF8: &str = "
    unsigned length = x < 0x80 ? 0x76544440u : x < 0xc0 ? 0x76542104u : x < 0xc2 ? 0x76544444u : x < 0xe0 ? 0x76544441u
        : x < 0xf0 ? 0x76544442u : x < 0xf5 ? 0x76544443u : 0x76544444u;
    unsigned next = x == 0xe0 ? 1 : x == 0xed ? 2 : x == 0xf0 ? 3 : x == 0xf4 ? 4 : 0;
    unsigned second = 0x76500000u | next | (x >= 0xa0 ? next : 5) << 4 | (x < 0xa0 ? next : 5) << 8
        | (x >= 0x90 ? next : 5) << 12 | (x < 0x90 ? next : 5) << 16;
    return { { length }, { second } };
";

parascan::operator! {
    /// Writes after each byte how many bytes of the character are to come, or `INVALID` from the
    /// first error on.
    struct Utf8 on u8 {
        associativity: Exact,
        carry: Pair,
        identity: Pair {
            length: Transitions::new([0, 1, 2, 3, 4, 5, 6, 7]),
            second: Transitions::new([0, 1, 2, 3, 4, 5, 6, 7]),
        },
        // SAFETY: the texts compare and combine bits, and are defined for all bytes and all words.
        lift: |byte| utf8(byte) => unsafe UTF8,
        lower: |x| if x.second.after(0) == 5 { INVALID } else { x.length.after(0) }
            => unsafe "Element((x.second.packed & 7) == 5 ? 4 : x.length.packed & 7)",
        combine: |a, b| Pair {
            length: <Compose as Operator<Transitions>>::combine(a.length, b.length),
            second: <Compose as Operator<Transitions>>::combine(a.second, b.second),
        } => unsafe "{ { States(b.length.packed).of(a.length.packed).packed() }, { States(b.second.packed).of(a.second.packed).packed() } }",
    }
}

/// A serial decoder by the table of well-formed sequences in the Unicode Standard (3-7).
fn sequential_utf8(text: &[u8]) -> Vec<u8> {
    let (mut to_come, mut range) = (0, 0x80..=0xbf);
    let step = |&byte: &u8| {
        to_come = match to_come {
            INVALID => INVALID,
            0 => match byte {
                0x00..=0x7f => 0,
                0xc2..=0xdf => 1,
                0xe0..=0xef => 2,
                0xf0..=0xf4 => 3,
                _ => INVALID,
            },
            more if range.contains(&byte) => more - 1,
            _ => INVALID,
        };
        range = match byte {
            0xe0 => 0xa0..=0xbf,
            0xed => 0x80..=0x9f,
            0xf0 => 0x90..=0xbf,
            0xf4 => 0x80..=0x8f,
            _ => 0x80..=0xbf,
        };
        to_come
    };
    text.iter().map(step).collect()
}

// ---- both engines -------------------------------------------------------------------------------

/// Scans on both engines, checks the states against the serial automaton, and prints the rates.
fn on_both<Op: Operator<u8>>(
    name: &str,
    text: &[u8],
    sequential: fn(&[u8]) -> Vec<u8>,
    stream: Option<&Arc<CudaStream>>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let rate = |start: Instant| text.len() as f64 / start.elapsed().as_secs_f64() / 1e9;
    let mut states = vec![0; text.len()];
    let start = Instant::now();
    scan::<Op, u8>().run_into(text, &mut states)?;
    let cpu = rate(start);
    let start = Instant::now();
    let expected = sequential(text);
    let plain = rate(start);
    assert!(states == expected, "{name} on the CPU");
    println!("{name}: {cpu:.2} GB/s on the CPU, {plain:.2} byte after byte");

    if let Some(stream) = stream {
        let there = stream.clone_htod(text)?;
        let mut out = scan::<Op, u8>().run(&there)?; // compiles the kernel
        stream.synchronize()?;
        let start = Instant::now();
        scan::<Op, u8>().run_into(&there, &mut out)?;
        stream.synchronize()?;
        println!("    {:.1} GB/s on the GPU", rate(start));
        assert!(stream.clone_dtoh(&out)? == expected, "{name} on the GPU");
    }
    Ok(states)
}

/// JSON of about that many bytes: strings with escapes and with characters of every length.
fn json(bytes: usize) -> Vec<u8> {
    let pieces = ["name", "\\\"", "\\\\", "\\n", "\u{e9}", "\u{20ac}", "\u{1f600}", ", [1, 2.5e3]", "{}", " "];
    let (mut text, mut state) = (String::from("["), 1_u64);
    while text.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push('"');
        (0..state >> 60).for_each(|k| text.push_str(pieces[(state >> (4 * k) & 15) as usize % pieces.len()]));
        text.push_str(if state >> 59 & 1 == 0 { "\",\n" } else { "\": 17,\n" });
    }
    text.push_str("null]");
    text.into_bytes()
}
