//! The text of a `where` expression: the words, signs and precedence of SQL, and nothing else of it.
//!
//! After an operand come operators and their right sides, for as long as they bind closer than the operator before the
//! operand. This is a Pratt parser: operators of a chain follow each other in one loop.

use winnow::Parser;
use winnow::combinator::{alt, delimited, eof, opt, repeat, separated, terminated};
use winnow::error::ParserError;
use winnow::stream::Stream;
use winnow::token::{any, one_of, rest, take_till, take_until, take_while};

use super::expression::{Expression, Operand, Step};
use super::scalar::{Binary, Scalar};
use crate::excerpt::excerpt;

#[cfg(test)]
mod tests;

/// How deep expressions may nest. Each level takes stack, both here and where they are evaluated.
const DEEPEST: u8 = 50;

const SUPPORTED: &str = "use comparisons, and, or, not, in, between, like, ilike, is null and arithmetic over columns, \
                         numbers and strings";

/// Why a parser does not read a text.
#[derive(Debug)]
struct Fault {
    /// How many bytes of the text are left at this place.
    left: usize,
    /// The problem. It is empty while another parser may still read the text.
    problem: String,
}

type Parsed<T> = Result<T, Fault>;

/// How closely operators bind, the loosest first.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Binding {
    Outermost,
    Or,
    And,
    Not,
    Is,
    Like,
    Comparison,
    Sum,
    Product,
}

/// An operator after an operand.
#[derive(Clone, Copy, Debug)]
enum Operator {
    Or,
    And,
    Is,
    Like { any_case: bool, negated: bool },
    Between { negated: bool },
    In { negated: bool },
    Binary(Binary),
}

/// Parses an expression.
pub(super) fn parse(text: &str) -> Result<Expression, String> {
    let end = must(eof, "an operator or the end");
    let outermost = |input: &mut &str| expression(input, Binding::Outermost, 0);
    let parsed = delimited(blank, outermost, end).parse_next(&mut &*text);
    parsed.map_err(|fault| {
        let before = &text[..text.len() - fault.left];
        format!("at character {}: {}", before.chars().count() + 1, fault.problem)
    })
}

/// An expression whose operators all bind closer than `binding`, within `depth` others.
fn expression(input: &mut &str, binding: Binding, depth: u8) -> Parsed<Expression> {
    if depth == DEEPEST {
        let problem = format!("it is nested more than {DEEPEST} levels deep; use fewer parentheses");
        return Err(Fault::new(input, problem));
    }
    let depth = depth + 1;
    let mut expression = operand(input, depth)?;
    let mut closer = opt(operator.verify(|operator: &Operator| operator.binding() > binding));
    while let Some(operator) = closer.parse_next(input)? {
        expression.steps.push(step(input, operator, depth)?);
    }
    Ok(expression)
}

/// The text before the first operator. In parentheses, it has operators of its own.
fn operand(input: &mut &str, depth: u8) -> Parsed<Expression> {
    if has(input, token('('))? {
        let inner = expression(input, Binding::Outermost, depth)?;
        must(token(')'), "an operator or \")\"").parse_next(input)?;
        return Ok(inner);
    }
    if has(input, token('+'))? {
        return expression(input, Binding::Product, depth);
    }
    let operand = if has(input, token('-'))? {
        Operand::Negative(Box::new(expression(input, Binding::Product, depth)?))
    } else if has(input, keyword("not"))? {
        Operand::Not(Box::new(expression(input, Binding::Not, depth)?))
    } else {
        must(alt((constant, column)), "a column or a value").parse_next(input)?
    };
    Ok(Expression { operand, steps: Vec::new() })
}

fn operator(input: &mut &str) -> Parsed<Operator> {
    let comparison = alt((
        alt(("==", "=")).value(Binary::Equal),
        alt(("<>", "!=")).value(Binary::NotEqual),
        "<=".value(Binary::AtMost),
        "<".value(Binary::Less),
        ">=".value(Binary::AtLeast),
        ">".value(Binary::Greater),
    ));
    let computation = alt((
        '+'.value(Binary::Plus),
        '-'.value(Binary::Minus),
        '*'.value(Binary::Times),
        '/'.value(Binary::Divide),
        '%'.value(Binary::Remainder),
    ));
    let negated = has(input, keyword("not"))?;
    let mut either = alt((
        keyword("like").value(Operator::Like { any_case: false, negated }),
        keyword("ilike").value(Operator::Like { any_case: true, negated }),
        keyword("between").value(Operator::Between { negated }),
        keyword("in").value(Operator::In { negated }),
    ));
    if negated {
        return either.parse_next(input);
    }
    alt((
        token(alt((comparison, computation))).map(Operator::Binary),
        keyword("and").value(Operator::And),
        keyword("or").value(Operator::Or),
        keyword("is").value(Operator::Is),
        either,
    ))
    .parse_next(input)
}

fn step(input: &mut &str, operator: Operator, depth: u8) -> Parsed<Step> {
    let right = |input: &mut &str| expression(input, operator.binding(), depth);
    Ok(match operator {
        Operator::Or => Step::Or(right(input)?),
        Operator::And => Step::And(right(input)?),
        Operator::Binary(binary) => Step::Binary(binary, right(input)?),
        Operator::Like { any_case, negated } => Step::Like { pattern: right(input)?, any_case, negated },
        Operator::Is => {
            let negated = has(input, keyword("not"))?;
            let truth = alt((
                keyword("null").value(None),
                keyword("true").value(Some(true)),
                keyword("false").value(Some(false)),
            ));
            Step::Is { truth: must(truth, "null, true or false").parse_next(input)?, negated }
        }
        Operator::Between { negated } => {
            let low = right(input)?;
            must(keyword("and"), "an operator or \"and\"").parse_next(input)?;
            Step::Between { low, high: right(input)?, negated }
        }
        Operator::In { negated } => {
            must(token('('), "\"(\"").parse_next(input)?;
            let item = |input: &mut &str| expression(input, Binding::Outermost, depth);
            let list = separated(1.., item, token(',')).parse_next(input)?;
            must(token(')'), "an operator, \",\" or \")\"").parse_next(input)?;
            Step::In { list, negated }
        }
    })
}

fn constant(input: &mut &str) -> Parsed<Operand> {
    let value = alt((
        keyword("null").value(Scalar::Null),
        keyword("true").value(Scalar::Truth(true)),
        keyword("false").value(Scalar::Truth(false)),
        token(number.verify_map(Scalar::read)),
    ));
    alt((token(quoted('\'')).map(Operand::text), value.map(Operand::Value))).parse_next(input)
}

fn column(input: &mut &str) -> Parsed<Operand> {
    let start = *input;
    let name = token(alt((quoted('"'), quoted('`'), word.map(str::to_owned))));
    let parts: Vec<String> = separated(1.., name, token('.')).parse_next(input)?;
    let name = parts.join(".");
    if input.starts_with('(') {
        let problem = format!("the function {:?} is not supported; {SUPPORTED}", excerpt(&name));
        return Err(Fault::new(start, problem));
    }
    Ok(Operand::Column(name))
}

/// Text between two marks. A mark within it is written twice.
fn quoted<'a>(mark: char) -> impl Parser<&'a str, String, Fault> {
    let part = alt((take_till(1.., mark), (mark, mark).take().map(|twice: &str| &twice[1..])));
    let text = repeat(0.., part).fold(String::new, |text: String, part: &str| text + part);
    delimited(mark, text, must(mark, "the closing quote"))
}

fn number<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    let whole = alt(((digits, opt(('.', opt(digits)))).void(), ('.', digits).void()));
    let exponent = (one_of(['e', 'E']), opt(one_of(['+', '-'])), digits);
    (whole, opt(exponent)).take().parse_next(input)
}

fn digits<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    take_while(1.., '0'..='9').parse_next(input)
}

fn keyword<'a>(wanted: &'static str) -> impl Parser<&'a str, (), Fault> {
    token(word.verify(move |word: &str| word.eq_ignore_ascii_case(wanted)).void())
}

/// A keyword, or a name without quotes.
fn word<'a>(input: &mut &'a str) -> Parsed<&'a str> {
    let first = |c: char| c.is_alphabetic() || matches!(c, '_' | '#' | '@');
    let other = move |c: char| first(c) || c.is_ascii_digit() || c == '$';
    (one_of(first), take_while(0.., other)).take().parse_next(input)
}

/// The result of `parser`, after skipping the blanks that follow.
fn token<'a, O>(parser: impl Parser<&'a str, O, Fault>) -> impl Parser<&'a str, O, Fault> {
    terminated(parser, blank)
}

fn blank(input: &mut &str) -> Parsed<()> {
    let spaces = take_while(1.., char::is_whitespace).void();
    let line = ("--", take_till(0.., '\n')).void();
    let text = alt((take_until(0.., "*/"), rest));
    let comment = ("/*", text, must("*/", "\"*/\" after the comment")).void();
    repeat(0.., alt((spaces, line, comment))).parse_next(input)
}

/// Skips the text that `parser` reads, and returns whether it was there.
fn has<'a, O>(input: &mut &'a str, parser: impl Parser<&'a str, O, Fault>) -> Parsed<bool> {
    Ok(opt(parser).parse_next(input)?.is_some())
}

/// The result of `parser`. Any other text is a fault.
fn must<'a, O>(parser: impl Parser<&'a str, O, Fault>, what: &'static str) -> impl Parser<&'a str, O, Fault> {
    let mut parser = opt(parser);
    move |input: &mut &'a str| {
        let read = parser.parse_next(input)?;
        read.ok_or_else(|| Fault::new(input, format!("expected {what}, found {}; {SUPPORTED}", found(input))))
    }
}

/// The word, number or sign that a text begins with, as messages quote it.
fn found(text: &str) -> String {
    let sign = take_while(1.., |c: char| "!$%&*+-./:<=>?^|~".contains(c));
    match alt((word, number, sign, any.take())).parse_next(&mut &*text) {
        Ok(token) => format!("{:?}", excerpt(token)),
        Err(_) => "the end".to_owned(),
    }
}

impl Operator {
    fn binding(self) -> Binding {
        match self {
            Self::Or => Binding::Or,
            Self::And => Binding::And,
            Self::Is => Binding::Is,
            Self::Like { .. } => Binding::Like,
            Self::Between { .. } | Self::In { .. } => Binding::Comparison,
            Self::Binary(Binary::Plus | Binary::Minus) => Binding::Sum,
            Self::Binary(Binary::Times | Binary::Divide | Binary::Remainder) => Binding::Product,
            Self::Binary(_) => Binding::Comparison,
        }
    }
}

impl Fault {
    /// A fault where `rest` begins. No other parser is tried after it.
    fn new(rest: &str, problem: String) -> Self {
        Self { left: rest.len(), problem }
    }
}

impl<I: Stream> ParserError<I> for Fault {
    type Inner = Self;

    fn from_input(input: &I) -> Self {
        Self { left: input.eof_offset(), problem: String::new() }
    }

    fn is_backtrack(&self) -> bool {
        self.problem.is_empty()
    }

    fn into_inner(self) -> Result<Self, Self> {
        Ok(self)
    }
}
