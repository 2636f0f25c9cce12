//! The search for the smallest counterexample, and its lines in a message.

use super::values::Bytes;
use crate::{Element, Operator};
use bytemuck::{bytes_of, pod_read_unaligned};
use proptest::collection::vec;
use proptest::strategy::BoxedStrategy;
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use std::fmt::{Debug, Write};

/// proptest's configuration: 1024 cases, since a law may break only on special values and a case is
/// cheap. Nothing is written to disk.
pub(super) fn config() -> Config {
    let config = Config { failure_persistence: None, max_shrink_iters: 1 << 16, ..Config::default() };
    if std::env::var_os("PROPTEST_CASES").is_some() { config } else { Config { cases: 1024, ..config } }
}

/// The elements of an operand, at least one, which are combined to it.
pub(super) type Operand = Vec<Bytes>;

/// A law: an error with the results if some operands break it.
pub(super) type Law<'a> = &'a dyn Fn(&[Operand]) -> Result<(), String>;

/// The lines of the smallest operands found that break `law`, with the law's message. An error if a
/// strategy has no values.
///
/// Elements are bytes, so this function and its part of proptest are compiled once for all types.
pub(super) fn smallest(
    strategies: [Option<&BoxedStrategy<Bytes>>; 2],
    names: &[&str],
    shown: fn(&[u8]) -> String,
    law: Law,
) -> Result<Option<String>, String> {
    for values in strategies.into_iter().flatten() {
        let all = vec(vec(values.clone(), 1..=3), names.len());
        match TestRunner::new(config()).run(&all, |operands| law(&operands).map_err(TestCaseError::fail)) {
            Ok(()) => {}
            Err(TestError::Fail(words, operands)) => {
                let named: Vec<_> = names.iter().copied().zip(operands.iter().map(|operand| &operand[..])).collect();
                return Ok(Some(operand_lines(&named, shown) + words.message()));
            }
            Err(TestError::Abort(reason)) => return Err(reason.message().to_owned()),
        }
    }
    Ok(None)
}

/// The carry of an operand: its elements lifted and combined.
pub(super) fn fold<Op: Operator<T>, T: Element>(operand: &[Bytes]) -> Op::Carry {
    let mut sum = None;
    for x in operand {
        let carry = Op::lift(pod_read_unaligned(x));
        sum = Some(match sum {
            Some(sum) => Op::combine(sum, carry),
            None => carry,
        });
    }
    sum.expect("operands have at least one element")
}

// ---- words --------------------------------------------------------------------------------------

/// An element as `Debug` prints it.
pub(super) fn shown<T: Element + Debug>(bytes: &[u8]) -> String {
    format!("{:?}", pod_read_unaligned::<T>(bytes))
}

/// A line for each operand: its element, or the elements that it combines.
pub(super) fn operand_lines(operands: &[(&str, &[Bytes])], shown: fn(&[u8]) -> String) -> String {
    let line = |&(name, elements): &(&str, &[Bytes])| match elements {
        [element] => format!("    {name} = {}\n", shown(element)),
        _ => {
            let elements: Vec<_> = elements.iter().map(|element| shown(element)).collect();
            format!("    {name} = [{}] combined\n", elements.join(", "))
        }
    };
    operands.iter().map(line).collect()
}

/// The lines of two different results, as elements. If both elements print the same, the lines show
/// the bits of the carries.
pub(super) fn results<Op: Operator<T>, T: Element + Debug>(names: [&str; 2], x: Op::Carry, y: Op::Carry) -> String {
    let shown = [shown::<T>(bytes_of(&Op::lower(x))), shown::<T>(bytes_of(&Op::lower(y)))];
    lines_of(names, shown, [bytes_of(&x), bytes_of(&y)])
}

fn lines_of(names: [&str; 2], shown: [String; 2], carries: [&[u8]; 2]) -> String {
    let alike = shown[0] == shown[1];
    let mut lines = String::new();
    for ((name, shown), carry) in names.iter().zip(&shown).zip(carries) {
        let carried = if alike { format!(", carried as {}", hex(carry)) } else { String::new() };
        writeln!(lines, "    {name} = {shown}{carried}").expect("a String takes all");
    }
    lines.truncate(lines.trim_end().len());
    lines
}

/// The bytes in hexadecimal: as one number if they have the size of one, the highest byte first.
pub(super) fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| format!("{byte:02x}");
    match bytes.len() {
        1 | 2 | 4 | 8 => format!("0x{}", bytes.iter().rev().map(digits).collect::<String>()),
        _ => bytes.iter().map(digits).collect::<Vec<_>>().join(" "),
    }
}
