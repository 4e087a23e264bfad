//! Braces in paths: `{a,b}` and `{000..099}` stand for several paths, as in a shell.
//!
//! If one of the two numbers is filled with zeros, all are; a third number is the step: `{0..10..5}`. Braces that hold
//! neither a list nor a range stay as they are, and so does a brace within brackets: `[{]`.

use std::ops::Range;

/// How many paths a pattern may stand for.
pub(super) const MOST: usize = 1_000_000;

/// The paths that `pattern` stands for, in order; `None` if there are too many.
pub(super) fn expanded(pattern: &str) -> Option<Vec<String>> {
    let (mut paths, mut rest) = (vec![String::new()], pattern);
    while let Some((braces, choices)) = first(rest) {
        let mut ends = Vec::new();
        for choice in choices? {
            ends.extend(expanded(&choice)?);
            if ends.len().saturating_mul(paths.len()) > MOST {
                return None;
            }
        }
        let before = &rest[..braces.start];
        paths = paths
            .iter()
            .flat_map(|path| ends.iter().map(move |end| format!("{path}{before}{end}")))
            .collect();
        rest = &rest[braces.end..];
    }
    paths.iter_mut().for_each(|path| path.push_str(rest));
    Some(paths)
}

/// The texts that the first braces of a pattern stand for, without the braces; `None` if there are too many.
type Choices = Option<Vec<String>>;

/// The place of the first braces that hold a list or a range, and the texts that they stand for.
fn first(pattern: &str) -> Option<(Range<usize>, Choices)> {
    let mut marks = marks(pattern).into_iter();
    while let Some((open, mark)) = marks.next() {
        if mark != b'{' {
            continue;
        }
        let (mut depth, mut between) = (0_usize, vec![open]);
        for (at, mark) in marks.clone() {
            match mark {
                b',' if depth == 0 => between.push(at),
                b'{' => depth += 1,
                b'}' if depth > 0 => depth -= 1,
                b'}' => {
                    let is_list = between.len() > 1;
                    between.push(at);
                    let part = |ends: &[usize]| pattern[ends[0] + 1..ends[1]].to_owned();
                    let choices = match is_list {
                        true => Some(Some(between.windows(2).map(part).collect())),
                        false => range(&pattern[open + 1..at]),
                    };
                    match choices {
                        Some(choices) => return Some((open..at + 1, choices)),
                        None => break,
                    }
                }
                _ => {}
            }
        }
    }
    None
}

/// The braces and commas of a pattern that are not within brackets, and where they are.
fn marks(pattern: &str) -> Vec<(usize, u8)> {
    let bytes = pattern.as_bytes();
    let (mut marks, mut at) = (Vec::new(), 0);
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'{' | b',' | b'}' => marks.push((at, byte)),
            b'[' => {
                // The first character within may be a closing bracket.
                let first = at + 1 + usize::from(bytes.get(at + 1) == Some(&b'!'));
                let rest = bytes.get(first + 1..).unwrap_or_default();
                at = rest.iter().position(|&byte| byte == b']').map_or(at, |close| first + 1 + close);
            }
            _ => {}
        }
        at += 1;
    }
    marks
}

/// The texts that `from..to` or `from..to..step` stands for, if it is a range of numbers or letters.
fn range(text: &str) -> Option<Choices> {
    let parts: Vec<&str> = text.split("..").collect();
    let (from, to, step) = match parts[..] {
        [from, to] => (from, to, 1),
        [from, to, step] => (from, to, step.parse::<i64>().ok()?.unsigned_abs().max(1)),
        _ => return None,
    };
    let letters = match (from.as_bytes(), to.as_bytes()) {
        ([a], [b]) if a.is_ascii_lowercase() && b.is_ascii_lowercase() => true,
        ([a], [b]) => a.is_ascii_uppercase() && b.is_ascii_uppercase(),
        _ => false,
    };
    let number = |text: &str| match letters {
        true => Some(i64::from(text.as_bytes()[0])),
        false => text.parse().ok(),
    };
    let (first, last) = (number(from)?, number(to)?);
    let steps = usize::try_from(first.abs_diff(last) / step).ok().filter(|steps| *steps < MOST);
    let is_filled = |text: &str| text.len() > 1 && text.trim_start_matches('-').starts_with('0');
    let width = if is_filled(from) || is_filled(to) { from.len().max(to.len()) } else { 0 };
    let nth = |n: usize| {
        let far = step.saturating_mul(n as u64);
        let number =
            if first <= last { first.wrapping_add_unsigned(far) } else { first.wrapping_sub_unsigned(far) };
        match letters {
            true => char::from(number as u8).to_string(),
            false => format!("{number:0width$}"),
        }
    };
    Some(steps.map(|steps| (0..=steps).map(nth).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As bash 5 expands them, except the last line.
    #[test]
    fn what_a_shell_makes_of_braces() {
        let cases: [(&str, &[&str]); 19] = [
            ("a", &["a"]),
            ("{a,b}", &["a", "b"]),
            ("x{a,b}y{c,d}z", &["xaycz", "xaydz", "xbycz", "xbydz"]),
            ("x{a,b{c,d}}", &["xa", "xbc", "xbd"]),
            ("{,a}b", &["b", "ab"]),
            ("{08..11}", &["08", "09", "10", "11"]),
            ("{8..011}", &["008", "009", "010", "011"]),
            ("{3..1}", &["3", "2", "1"]),
            ("{-1..1}", &["-1", "0", "1"]),
            ("{-01..1}", &["-01", "000", "001"]),
            ("{0..10..4}", &["0", "4", "8"]),
            ("{10..0..-4}", &["10", "6", "2"]),
            ("{a..e..2}", &["a", "c", "e"]),
            ("{c..a}", &["c", "b", "a"]),
            ("{{0..1},x}", &["0", "1", "x"]),
            ("{a}{b..}{1..2..x}{..}{é..f}", &["{a}{b..}{1..2..x}{..}{é..f}"]),
            ("a}b,{c", &["a}b,{c"]),
            ("{a{b,c}", &["{ab", "{ac"]),
            ("[{]a,b}[!],]{[,],b}", &["[{]a,b}[!],][,]", "[{]a,b}[!],]b"]),
        ];
        for (pattern, wanted) in cases {
            assert_eq!(expanded(pattern).expect("few"), wanted, "{pattern}");
        }
    }

    #[test]
    fn too_many_paths_are_refused_before_they_are_made() {
        assert_eq!(expanded("{1..1000000}").map(|paths| paths.len()), Some(MOST));
        for pattern in
            ["{0..1000000}", "{1..1001}{1..1000}", "{-9223372036854775808..9223372036854775807}", "{a,b}"]
        {
            let pattern = if pattern == "{a,b}" { pattern.repeat(1000) } else { pattern.to_owned() };
            assert_eq!(expanded(&pattern), None);
        }
    }
}
