//! Shorter PTX, for images that a build embeds.
//!
//! The compiler gives every value a register of its own. So each copy of an unrolled step has other
//! numbers, and a packer finds nothing that repeats. Here a register whose values stay in one basic
//! block takes the lowest number that is free (linear scan, Poletto and Sarkar 1999), and the copies
//! become alike: packed, the text has less than half the bytes. Comments, indentation and constants
//! that nothing names go too. The driver's compiler begins by giving every value its own register
//! again, so a kernel has the same instructions, but for their order and registers at times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::ops::Range;

/// A part of the key of an image, by which other forms of the same PTX have other keys. Raise it with every
/// change of what `shortened` returns.
pub(crate) const FORM: &str = "shortened 1";

/// Returns the text of a PTX module in fewer bytes, with the same meaning.
pub(crate) fn shortened(ptx: &str) -> String {
    let lines: Vec<String> = ptx.trim_end_matches('\0').lines().map(code).filter(|line| !line.is_empty()).collect();
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for word in lines.iter().flat_map(|line| line.split(|c: char| !is_of_word(c))) {
        *uses.entry(word).or_default() += 1;
    }
    let is_needed = |line: &&str| constant(line).is_none_or(|name| uses[name] > 1);
    let needed: Vec<&str> = lines.iter().map(String::as_str).filter(is_needed).collect();
    let (mut short, mut rest) = (String::new(), &needed[..]);
    while let Some(&line) = rest.first() {
        let body = if line == "{" { function_body(rest) } else { &[] };
        if body.is_empty() {
            short += line;
            short.push('\n');
            rest = &rest[1..];
        } else {
            renumber(body, &mut short);
            rest = &rest[body.len()..];
        }
    }
    short
}

/// A line without its comment and with single blanks.
fn code(line: &str) -> String {
    let code = line.split("//").next().unwrap_or_default();
    code.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_of_word(c: char) -> bool {
    c == '_' || c == '$' || c.is_ascii_alphanumeric()
}

/// The name of the variable that a line defines, if it is one of this module alone.
fn constant(line: &str) -> Option<&str> {
    let definition = line.strip_prefix(".global ")?.strip_suffix(';')?;
    let name = definition.split(" = ").next()?.split(' ').next_back()?;
    name.split('[').next()
}

/// The lines from a brace to the one that closes it.
fn function_body<'a>(lines: &'a [&'a str]) -> &'a [&'a str] {
    let mut open = 0;
    for (i, line) in lines.iter().enumerate() {
        open += line.matches('{').count() as i64 - line.matches('}').count() as i64;
        if open == 0 {
            return &lines[..=i];
        }
    }
    &[]
}

/// A register, as in `%rd12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Register<'t> {
    class: &'t str,
    number: u32,
}

/// The registers in a line, and where their numbers stand.
fn registers(line: &str) -> Vec<(Register<'_>, Range<usize>)> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices('%') {
        let word = &line[at + 1..];
        let word = &word[..word.find(|c| !is_of_word(c)).unwrap_or(word.len())];
        let class = word.trim_end_matches(|c: char| c.is_ascii_digit());
        if let Ok(number) = word[class.len()..].parse() {
            let end = at + 1 + word.len();
            found.push((Register { class, number }, at + 1 + class.len()..end));
        }
    }
    found
}

/// The class that a line declares registers of, as in `.reg .b32 %r<7>;`.
fn declared(line: &str) -> Option<&str> {
    line.strip_prefix(".reg ")?.strip_suffix(">;")?.split_once(" %")?.1.split_once('<').map(|(class, _)| class)
}

/// The instructions whose first operand is written and not read.
const WRITES_FIRST: [&str; 44] = [
    "abs",
    "activemask",
    "add",
    "addc",
    "and",
    "atom",
    "bfe",
    "bfi",
    "bfind",
    "brev",
    "clz",
    "cvt",
    "cvta",
    "div",
    "ex2",
    "fma",
    "fns",
    "ld",
    "lg2",
    "lop3",
    "mad",
    "madc",
    "match",
    "max",
    "min",
    "mov",
    "mul",
    "neg",
    "not",
    "or",
    "popc",
    "prmt",
    "rcp",
    "rem",
    "selp",
    "setp",
    "shf",
    "shfl",
    "shl",
    "shr",
    "sub",
    "subc",
    "vote",
    "xor",
];

/// The operands that a line writes, unless it may leave them as they were or read them.
fn written(line: &str) -> Option<&str> {
    let (instruction, operands) = line.strip_suffix(';')?.split_once(' ')?;
    let name = instruction.split('.').next()?;
    if !WRITES_FIRST.contains(&name) || operands.contains(';') {
        return None;
    }
    let end = if operands.starts_with('{') { operands.find('}') } else { operands.find(',') };
    operands.get(..end?)
}

/// Whether a basic block ends before the line and after it: both at a label, at a brace and at what
/// this module does not know; after it at a jump.
fn bounds(line: &str) -> (bool, bool) {
    let instruction = if line.starts_with('@') { line.split_once(' ').map_or("", |(_, rest)| rest) } else { line };
    let name = instruction.split(['.', ' ', ';']).next().unwrap_or_default();
    let is_label = line.split(' ').next().is_some_and(|word| word.ends_with(':'));
    let is_one = line.ends_with(';') && line.matches(';').count() == 1 && !is_label;
    (!is_one, !is_one || matches!(name, "bra" | "brx" | "call" | "ret" | "exit"))
}

/// The occurrences of a register.
struct Life {
    first: usize,
    last: usize,
    /// Whether the first line writes it, and all are in one basic block.
    is_local: bool,
}

/// Appends the body of a function with its registers renumbered.
fn renumber(body: &[&str], short: &mut String) {
    let classes: Vec<&str> = body.iter().filter_map(|line| declared(line)).collect();
    // Of a class that a nested scope declares again, one name is two registers.
    if classes.iter().collect::<HashSet<_>>().len() < classes.len() {
        body.iter().for_each(|line| *short += &format!("{line}\n"));
        return;
    }
    let is_declared = |register: &Register| classes.contains(&register.class);
    let mut in_line: Vec<Vec<(Register, Range<usize>)>> = Vec::new();
    let mut lives: HashMap<Register, Life> = HashMap::new();
    let mut block_begins = 0;
    for (i, &line) in body.iter().enumerate() {
        let (ends_before, ends_after) = bounds(line);
        block_begins = if ends_before { i } else { block_begins };
        let of_line: Vec<_> = registers(line).into_iter().filter(|(register, _)| is_declared(register)).collect();
        let writes = written(line).map_or(Vec::new(), registers);
        for &(register, _) in &of_line {
            let count = |list: &[(Register, Range<usize>)]| list.iter().filter(|(other, _)| *other == register).count();
            let is_written_alone = (count(&writes), count(&of_line)) == (1, 1);
            let life = lives.entry(register).or_insert(Life { first: i, last: i, is_local: is_written_alone });
            life.last = i;
            life.is_local &= life.first >= block_begins;
        }
        block_begins = if ends_after { i + 1 } else { block_begins };
        in_line.push(of_line);
    }

    // Numbers of local registers, which are free again after the last line of each.
    let mut numbers: HashMap<Register, u32> = HashMap::new();
    let mut free: HashMap<&str, BinaryHeap<Reverse<u32>>> = HashMap::new();
    let mut count: HashMap<&str, u32> = classes.iter().map(|&class| (class, 0)).collect();
    let mut next = |class| {
        let count = count.get_mut(class).expect("it is declared");
        *count += 1;
        *count - 1
    };
    for (i, of_line) in in_line.iter().enumerate() {
        let locals = || of_line.iter().map(|&(register, _)| register).filter(|register| lives[register].is_local);
        for register in locals() {
            let mut freed = || free.get_mut(register.class)?.pop().map(|Reverse(number)| number);
            numbers.entry(register).or_insert_with(|| freed().unwrap_or_else(|| next(register.class)));
        }
        let ends: HashSet<Register> = locals().filter(|register| lives[register].last == i).collect();
        for register in ends {
            free.entry(register.class).or_default().push(Reverse(numbers[&register]));
        }
    }
    // Each other register has a number of its own, beyond those.
    for &(register, _) in in_line.iter().flatten() {
        numbers.entry(register).or_insert_with(|| next(register.class));
    }

    for (&line, of_line) in body.iter().zip(&in_line) {
        if let Some(class) = declared(line) {
            let (before, _) = line.split_once('<').expect("it declares a class");
            *short += &format!("{before}<{}>;\n", count[class].max(1));
            continue;
        }
        let mut end = 0;
        for (register, number) in of_line {
            *short += &line[end..number.start];
            *short += &numbers[register].to_string();
            end = number.end;
        }
        *short += &line[end..];
        short.push('\n');
    }
}

/// Asserts that each instruction reads the same values in both texts: a number passes from one
/// register to another only where the other is written, after the last line of the first, and
/// both live between two jumps or labels.
#[cfg(test)]
pub(super) fn assert_same_values(ptx: &str, short: &str) {
    let lines = |text: &str| -> Vec<String> {
        let lines = text.trim_end_matches('\0').lines().map(code);
        lines.filter(|line| !line.is_empty() && !line.starts_with(".global ")).collect()
    };
    let (long, short) = (lines(ptx), lines(short));
    let without_numbers = |line: &String| {
        let mut rest = line.clone();
        registers(line).into_iter().rev().for_each(|(_, number)| rest.replace_range(number, ""));
        rest
    };
    assert_eq!(long.len(), short.len());
    for (long, short) in long.iter().zip(&short).filter(|(line, _)| declared(line).is_none()) {
        assert_eq!(without_numbers(long), without_numbers(short));
    }
    // Functions have no registers in common.
    let begins =
        (0..long.len()).filter(|&i| long[i].starts_with([')', '.']) && long.get(i + 1).is_some_and(|next| next == "{"));
    let mut bounds: Vec<usize> = begins.collect();
    assert!(!bounds.is_empty(), "no function");
    bounds.push(long.len());
    for function in bounds.windows(2) {
        let (mut block, mut lives) = (0, HashMap::<Register, [(usize, usize); 2]>::new());
        let lines = || (function[0]..function[1]).map(|i| (i, &long[i]));
        for (i, line) in lines() {
            block += usize::from(!line.ends_with(';') || line.split(' ').any(|word| word.ends_with(':')));
            for (register, _) in registers(line) {
                lives.entry(register).or_insert([(i, block); 2])[1] = (i, block);
            }
            let mut words = line.split(['.', ' ', ';']);
            block += usize::from(words.any(|word| ["bra", "brx", "call", "ret", "exit"].contains(&word)));
        }
        let (mut holds, mut number) = (HashMap::new(), HashMap::new());
        for (i, line) in lines() {
            for ((old, at), (new, _)) in registers(line).into_iter().zip(registers(&short[i])) {
                assert_eq!(*number.entry(old).or_insert(new), new, "{line}");
                let before = holds.insert(new, old).filter(|before| *before != old);
                for register in before.into_iter().flat_map(|before| [before, old]) {
                    let [(first, first_block), (_, last_block)] = lives[&register];
                    let (written, line) = (written(&long[first]).expect("it writes"), &long[first]);
                    assert!(registers(written).iter().any(|(other, _)| *other == register), "{line}");
                    assert_eq!(first_block, last_block, "{line}");
                }
                if let Some(before) = before {
                    assert!(lives[&before][1].0 < i && lives[&old][0].0 == i, "{line} at {at:?}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of a function with these lines, shortened.
    fn body(lines: &str) -> String {
        let text = |lines: &str| format!(".func f()\n{{\n.reg .b32 %r<99>;\n.reg .pred %p<99>;\n{lines}}}\n");
        let short = shortened(&text(lines));
        assert_same_values(&text(lines), &short);
        let (_, body) = short.split_once(".reg .pred").expect("as above");
        body.split_once('\n').and_then(|(_, lines)| lines.strip_suffix("}\n")).expect("as above").to_owned()
    }

    #[test]
    fn copies_of_a_step_become_alike() {
        let step = |k: u32| {
            let (a, b, c) = (10 * k, 10 * k + 1, 10 * k + 2);
            format!(
                "ld.global.u32 %r{a}, [%rd1+{k}];\nmul.lo.s32 %r{b}, %r{a}, %r{a};\nadd.s32 %r{c}, %r{b}, %r{a};\n\
                 st.shared.u32 [x], %r{c};\n"
            )
        };
        let numbered = |a, b, c, k: u32| {
            step(k)
                .replace(&format!("%r{}", 10 * k), a)
                .replace(&format!("%r{}", 10 * k + 1), b)
                .replace(&format!("%r{}", 10 * k + 2), c)
        };
        assert_eq!(FORM, "shortened 1", "another form than the one below");
        let short = body(&(1..4).map(step).collect::<String>());
        assert_eq!(short, (1..4).map(|k| numbered("%r0", "%r1", "%r2", k)).collect::<String>());
    }

    #[test]
    fn registers_that_keep_a_number_of_their_own() {
        // Each is followed by a register that would take its number.
        for lines in [
            // over a jump, a label and a label of an author's
            "mov.u32 %r1, 1;\n@%p9 bra $L1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n$L1:\nst.u32 [x], %r1;\n",
            "$L1:\nst.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\nmov.u32 %r1, 1;\nbra.uni $L1;\n",
            "mov.u32 %r1, 1;\n{\nagain: bra again;\n}\nst.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
            "mov.u32 %r1, 1;\nagain: st.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\nbra again;\n",
            // written only at times, read by the instruction that writes it, in a line with others
            "@%p9 mov.u32 %r1, 1;\nst.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
            "add.u32 %r1, %r1, 1;\nst.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
            "mov.u32 %r1, 1; st.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
            "unknown.u32 %r1, 1;\nst.u32 [x], %r1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
            "red.add.u32 %r1, 1;\nmov.u32 %r2, 2;\nst.u32 [x], %r2;\n",
        ] {
            let short = body(lines);
            assert!(short.contains("mov.u32 %r0, 2;\nst.u32 [x], %r0;"), "{short}");
            let own = if lines.matches("%r1").count() == 1 { 1 } else { 2 };
            assert!(short.matches("%r1").count() >= own, "{short}");
        }
    }

    /// The inner `%r1` is another register than the outer one.
    #[test]
    fn a_scope_that_declares_its_registers_again_stays() {
        let lines = "mov.u32 %r9, 1;\n{\n.reg .b32 %r<5>;\nmov.u32 %r1, 2;\nst.u32 [x], %r1;\nst.u32 [y], %r9;\n}\n";
        assert_eq!(body(lines), lines);
    }

    /// Vectors, two results, and a register twice in its last line.
    #[test]
    fn operands_of_all_kinds() {
        let short = body(
            "ld.v2.u32 {%r5, %r6}, [%rd1];\nshfl.sync.up.b32 %r7|%p3, %r5, %r6, 0, -1;\n@%p3 add.u32 %r8, %r6, %r6;\n\
             mad.lo.u32 %r9, %r7, %r6, %r7;\nmov.b32 %r10, %tid.x;\nmov.u32 %r11, %clock64;\nst.v2.u32 [x], {%r9, %r10};\nst.u32 [x], %r11;\n",
        );
        assert_eq!(
            short,
            "ld.v2.u32 {%r0, %r1}, [%rd1];\nshfl.sync.up.b32 %r2|%p0, %r0, %r1, 0, -1;\n@%p0 add.u32 %r3, %r1, %r1;\n\
             mad.lo.u32 %r0, %r2, %r1, %r2;\nmov.b32 %r1, %tid.x;\nmov.u32 %r2, %clock64;\nst.v2.u32 [x], {%r0, %r1};\nst.u32 [x], %r2;\n"
        );
    }

    #[test]
    fn what_the_driver_does_not_need() {
        let short = shortened(
            "// a comment\n.version 8.0\n\n.global .align 4 .u32 NONE = 3;\n.global .align 1 .b8 table[3] = {1, 2, 3};\n\
             .global .align 4 .b8 unused[16];\n.visible .entry f(\n\t.param .u64 f_param_0 // of f\n)\n{\n\tmov.u64 \t%rd1, table;\n}\n\0",
        );
        let expected = ".version 8.0\n.global .align 1 .b8 table[3] = {1, 2, 3};\n.visible .entry f(\n.param .u64 f_param_0\n)\n{\nmov.u64 %rd1, table;\n}\n";
        assert_eq!(short, expected);
        assert_eq!(shortened(&short), short);
    }
}
