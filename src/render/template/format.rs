//! `"…" % values` and `"…".format(values)`.

use minijinja::{Error, State, Value};

use super::numbers::Number;
use super::objects::{Kind, dict, seq, type_name};
use super::{fail, numbers, room, text};

/// How a value is to be written.
#[derive(Debug, Default)]
struct Spec {
    fill: Option<char>,
    /// One of `<`, `>`, `^`, `=`.
    align: Option<char>,
    /// `+`, or a space.
    sign: Option<char>,
    alternate: bool,
    zero: bool,
    group: bool,
    width: usize,
    precision: Option<usize>,
}

const MOST_WIDTH: usize = 1 << 20;

impl Spec {
    /// The number at the beginning of a text, which is bounded.
    fn number(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Option<usize>, Error> {
        let mut number = None;
        while let Some(digit) = chars.peek().and_then(|char| char.to_digit(10)) {
            chars.next();
            number = Some(number.unwrap_or(0) * 10 + digit as usize);
            if number > Some(MOST_WIDTH) {
                return fail("a width is too large");
            }
        }
        Ok(number)
    }

    fn pad(&self, state: &State, sign: &str, body: &str, align: char) -> Result<String, Error> {
        let missing = self.width.saturating_sub(sign.chars().count() + body.chars().count());
        room(state, missing.saturating_mul(4) + body.len())?;
        let fill = self.fill.unwrap_or(' ');
        let pad = |count: usize| std::iter::repeat_n(fill, count).collect::<String>();
        Ok(match align {
            '<' => format!("{sign}{body}{}", pad(missing)),
            '^' => format!("{}{sign}{body}{}", pad(missing / 2), pad(missing - missing / 2)),
            '=' => format!("{sign}{}{body}", pad(missing)),
            _ => format!("{}{sign}{body}", pad(missing)),
        })
    }

    fn text(&self, state: &State, text: &str, align: char) -> Result<String, Error> {
        let cut: String = match self.precision {
            Some(precision) => text.chars().take(precision).collect(),
            None => text.to_owned(),
        };
        self.pad(state, "", &cut, self.align.unwrap_or(align))
    }

    fn int(&self, state: &State, value: i128, kind: char) -> Result<String, Error> {
        let size = value.unsigned_abs();
        let (prefix, digits) = match kind {
            'x' => ("0x", format!("{size:x}")),
            'X' => ("0X", format!("{size:X}")),
            'o' => ("0o", format!("{size:o}")),
            'b' => ("0b", format!("{size:b}")),
            _ => ("", if self.group { grouped(&size.to_string()) } else { size.to_string() }),
        };
        let missing = self.precision.unwrap_or(0).saturating_sub(digits.len());
        let digits = "0".repeat(missing) + &digits;
        let sign = self.signed(value < 0) + if self.alternate { prefix } else { "" };
        self.pad(state, &sign, &digits, self.align.unwrap_or('>'))
    }

    fn signed(&self, negative: bool) -> String {
        if negative { "-".to_owned() } else { self.sign.map(String::from).unwrap_or_default() }
    }

    fn float(&self, state: &State, value: f64, kind: char) -> Result<String, Error> {
        let precision = self.precision.unwrap_or(6);
        let size = value.abs();
        let mut body = if !size.is_finite() {
            if value.is_nan() { "nan".to_owned() } else { "inf".to_owned() }
        } else {
            room(state, precision + 400)?;
            match kind.to_ascii_lowercase() {
                'f' => format!("{size:.precision$}"),
                'e' => scientific(size, precision),
                _ => general(size, precision.max(1), self.alternate),
            }
        };
        if self.group
            && let Some(end) = body.find(|char: char| !char.is_ascii_digit()).or(Some(body.len()))
        {
            body = grouped(&body[..end]) + &body[end..];
        }
        if kind.is_ascii_uppercase() {
            body = body.to_uppercase();
        }
        let sign = self.signed(value.is_sign_negative() && !value.is_nan());
        self.pad(state, &sign, &body, self.align.unwrap_or('>'))
    }
}

fn grouped(digits: &str) -> String {
    let first = digits.len() % 3;
    let mut groups: Vec<&str> = Vec::new();
    if first > 0 {
        groups.push(&digits[..first]);
    }
    groups.extend((first..digits.len()).step_by(3).map(|at| &digits[at..at + 3]));
    groups.join(",")
}

fn scientific(size: f64, precision: usize) -> String {
    let text = format!("{size:.precision$e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn general(size: f64, precision: usize, keep_zeros: bool) -> String {
    let text = format!("{size:.*e}", precision - 1);
    let exponent: i32 =
        text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or_default();
    let plain = (-4..precision as i32).contains(&exponent);
    let text = match plain {
        true => format!("{size:.*}", (precision as i32 - 1 - exponent).max(0) as usize),
        false => scientific(size, precision - 1),
    };
    let (digits, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
    match digits.contains('.') && !keep_zeros {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_owned() + exponent,
        false => text,
    }
}

/// `format % values`.
pub(super) fn percent(state: &State, format: &str, values: &Value) -> Result<Value, Error> {
    let tuple = seq(values).filter(|seq| seq.kind == Kind::Tuple);
    let mut rest: Vec<Value> = match tuple {
        Some(tuple) => tuple.items.iter().rev().cloned().collect(),
        None => vec![values.clone()],
    };
    let mut used_names = false;
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        let mut named = None;
        if chars.peek() == Some(&'(') {
            let name: String = chars.by_ref().skip(1).take_while(|char| *char != ')').collect();
            let Some(dict) = dict(values) else { return fail("format requires a mapping") };
            let Some(value) = dict.get_str(&name) else {
                return fail(format!("the key '{name}' is not in the dict"));
            };
            (named, used_names) = (Some(value.clone()), true);
        }
        let mut next = |named: Option<Value>| match named.or_else(|| rest.pop()) {
            Some(value) => Ok(value),
            None => fail("not enough arguments for format string"),
        };
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|char| "#0- +".contains(*char)) {
            match flag {
                '#' => spec.alternate = true,
                '0' => spec.zero = true,
                '-' => spec.align = Some('<'),
                '+' => spec.sign = Some('+'),
                _ => spec.sign = spec.sign.or(Some(' ')),
            }
        }
        let mut star = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Result<Option<i128>, Error> {
            if chars.next_if_eq(&'*').is_none() {
                return Ok(Spec::number(chars)?.map(|number| number as i128));
            }
            let number =
                numbers::int(&next(None)?).filter(|number| number.unsigned_abs() <= MOST_WIDTH as u128);
            number.map_or_else(|| fail("* wants int"), |number| Ok(Some(number)))
        };
        let width = star(&mut chars)?.unwrap_or(0);
        if width < 0 {
            spec.align = Some('<');
        }
        spec.width = width.unsigned_abs() as usize;
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(usize::try_from(star(&mut chars)?.unwrap_or(0).max(0)).unwrap_or_default());
        }
        while chars.next_if(|char| "hlL".contains(*char)).is_some() {}
        let Some(kind) = chars.next() else { return fail("incomplete format") };
        if kind == '%' {
            out.push('%');
            continue;
        }
        let value = next(named)?;
        let number = "diouxXeEfFgG".contains(kind);
        if number && spec.zero && spec.align.is_none() {
            (spec.fill, spec.align) = (Some('0'), Some('='));
        }
        out.push_str(&match (kind, Number::of(&value)) {
            ('s', _) => spec.text(state, &text::string(&value)?, '>')?,
            ('r' | 'a', _) => {
                let mut repr = String::new();
                text::write_repr(&mut repr, &value)?;
                spec.text(state, &repr, '>')?
            }
            ('c', Some(Number::Int(code))) => {
                let char = u32::try_from(code).ok().and_then(char::from_u32);
                let Some(char) = char else { return fail("%c arg not in range(0x110000)") };
                spec.text(state, &char.to_string(), '>')?
            }
            ('c', None) if value.as_str().is_some_and(|text| text.chars().count() == 1) => {
                spec.text(state, value.as_str().unwrap_or_default(), '>')?
            }
            ('d' | 'i' | 'u', Some(Number::Int(value))) => spec.int(state, value, 'd')?,
            ('d' | 'i' | 'u', Some(Number::Float(value))) if value.is_finite() && value.abs() < 1e38 => {
                spec.int(state, value as i128, 'd')?
            }
            ('x' | 'X' | 'o', Some(Number::Int(value))) => spec.int(state, value, kind)?,
            ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Some(number)) => spec.float(state, number.float(), kind)?,
            _ => return fail(format!("%{kind} cannot write a value of the type {}", type_name(&value))),
        });
        room(state, out.len())?;
    }
    let all_used = rest.is_empty() || used_names || tuple.is_none() && dict(values).is_some();
    if all_used { Ok(Value::from(out)) } else { fail("not all arguments converted during string formatting") }
}

/// `format.format(*placed, **named)`.
pub(super) fn braces(
    state: &State,
    format: &str,
    placed: &[Value],
    named: &[(String, Value)],
) -> Result<String, Error> {
    let mut out = String::new();
    let mut automatic = 0;
    let mut rest = format;
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = after;
            continue;
        }
        let Some(end) = rest.find('}').filter(|_| brace == "{") else {
            return fail(format!("Single '{brace}' encountered in format string"));
        };
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (name, conversion) = field.split_once('!').unwrap_or((field, ""));
        if spec.contains('{') || name.contains(['.', '[']) {
            return fail("a field of `format` is too complicated");
        }
        let value = match name.parse::<usize>() {
            _ if name.is_empty() => {
                automatic += 1;
                placed.get(automatic - 1)
            }
            Ok(place) => placed.get(place),
            Err(_) => named.iter().find_map(|(known, value)| (known == name).then_some(value)),
        };
        let Some(value) = value else { return fail(format!("the argument '{name}' of `format` is missing")) };
        out.push_str(&match conversion {
            "" => formatted(state, value, spec)?,
            "s" => formatted(state, &Value::from(text::string(value)?), spec)?,
            "r" => {
                let mut repr = String::new();
                text::write_repr(&mut repr, value)?;
                formatted(state, &Value::from(repr), spec)?
            }
            _ => return fail(format!("unknown conversion '{conversion}'")),
        });
        room(state, out.len())?;
    }
    out.push_str(rest);
    Ok(out)
}

/// A value by a format specification, such as `>8.2f`.
fn formatted(state: &State, value: &Value, format: &str) -> Result<String, Error> {
    if format.is_empty() {
        return text::string(value);
    }
    let mut spec = Spec::default();
    let mut chars = format.chars().peekable();
    let is_align = |char: &char| "<>^=".contains(*char);
    let mut ahead = format.chars();
    let (first, second) = (ahead.next(), ahead.next());
    if second.as_ref().is_some_and(is_align) {
        spec.fill = first;
        chars.next();
    }
    spec.align = chars.next_if(is_align);
    spec.sign = chars.next_if(|char| "+- ".contains(*char)).filter(|sign| *sign != '-');
    spec.alternate = chars.next_if_eq(&'#').is_some();
    if chars.next_if_eq(&'0').is_some() && spec.align.is_none() {
        (spec.fill, spec.align) = (spec.fill.or(Some('0')), Some('='));
    }
    spec.width = Spec::number(&mut chars)?.unwrap_or(0);
    spec.group = chars.next_if_eq(&',').is_some();
    if chars.next_if_eq(&'.').is_some() {
        spec.precision = Some(match Spec::number(&mut chars)? {
            Some(precision) => precision,
            None => return fail("Format specifier missing precision"),
        });
    }
    let kind = chars.next();
    let number = Number::of(value);
    match (kind, number) {
        _ if chars.next().is_some() => fail(format!("Invalid format specifier '{format}'")),
        (None | Some('s'), None) if value.as_str().is_some() => {
            spec.text(state, value.as_str().unwrap_or_default(), '<')
        }
        (None | Some('d' | 'x' | 'X' | 'o' | 'b'), Some(Number::Int(number))) if spec.precision.is_none() => {
            spec.int(state, number, kind.unwrap_or('d'))
        }
        (Some('%'), Some(number)) => spec.float(state, number.float() * 100.0, 'f').map(|text| text + "%"),
        (Some(kind @ ('e' | 'E' | 'f' | 'F' | 'g' | 'G')), Some(number)) => {
            spec.float(state, number.float(), kind)
        }
        (None, Some(Number::Float(number))) if spec.precision.is_none() => {
            let mut body = String::new();
            text::write_float(&mut body, number.abs());
            spec.pad(state, &spec.signed(number.is_sign_negative()), &body, spec.align.unwrap_or('>'))
        }
        (None, Some(number)) => spec.float(state, number.float(), 'g'),
        _ => fail(format!("Unknown format '{format}' for a value of the type {}", type_name(value))),
    }
}
