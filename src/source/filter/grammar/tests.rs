//! Both sides of the grammar: generated expressions, written and read again, and texts that are none.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::{Binary, DEEPEST, Expression, Operand, Scalar, Step, parse, word};

fn read(text: &str) -> Expression {
    parse(text).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn column(name: &str) -> Expression {
    Expression { operand: Operand::Column(name.to_owned()), steps: Vec::new() }
}

/// A text, the same with parentheses, and with parentheses that mean something else.
const GROUPS: &[(&str, &str, &str)] = &[
    ("a or b and c", "a or (b and c)", "(a or b) and c"),
    ("a and b or c", "(a and b) or c", "a and (b or c)"),
    ("not a and b", "(not a) and b", "not (a and b)"),
    ("not a is null", "not (a is null)", "(not a) is null"),
    ("not a = b", "not (a = b)", "(not a) = b"),
    ("not a in (b) or c", "(not (a in (b))) or c", "not (a in (b) or c)"),
    ("a = not b = c", "a = (not (b = c))", "(a = (not b)) = c"),
    ("1 + not a + 2", "1 + (not (a + 2))", "(1 + (not a)) + 2"),
    ("a = b is null", "(a = b) is null", "a = (b is null)"),
    ("a is null = b", "(a is null) = b", "(a = b) is null"),
    ("a like b is true", "(a like b) is true", "a like (b is true)"),
    ("a like b = c", "a like (b = c)", "(a like b) = c"),
    ("a = b like c", "(a = b) like c", "a = (b like c)"),
    ("a = b = c", "(a = b) = c", "a = (b = c)"),
    ("a < b in (c)", "(a < b) in (c)", "a < (b in (c))"),
    ("a = b between c and d", "(a = b) between c and d", "a = (b between c and d)"),
    ("a between b and c = d", "(a between b and c) = d", "a between b and (c = d)"),
    ("a between b + 1 and c and d", "(a between (b + 1) and c) and d", "a between (b + 1) and (c and d)"),
    ("a < b + c", "a < (b + c)", "(a < b) + c"),
    ("a - b - c", "(a - b) - c", "a - (b - c)"),
    ("a - b * c", "a - (b * c)", "(a - b) * c"),
    ("a / b % c", "(a / b) % c", "a / (b % c)"),
    ("-a * b", "(-a) * b", "-(a * b)"),
    ("- -a", "-(-a)", "a"),
];

#[test]
fn operators_bind_as_in_sql() {
    for (text, same, other) in GROUPS {
        assert_eq!(read(text), read(same), "{text}");
        assert_ne!(Ok(read(text)), parse(other), "{text}");
    }
    assert_eq!(read("+a"), column("a"));
}

#[test]
fn words_names_and_values_are_those_of_sql() {
    let same = [
        ("A.b = 'x' AND NOT c IS NOT NULL", "A.b='x'and not(c)is not null"),
        ("a == 1 and b != 2", "a = 1 and b <> 2"),
        ("a NOT in (1) or a Not Between 1 aNd 2", "a not in (1) or a not between 1 and 2"),
        ("a -- this - and that\n = /* or 'none' */ 1", "a=1"),
        ("a\u{a0}>\t1\r\n", "a > 1"),
        ("`a b`.\"c\" . d > 1", "\"a b.c.d\" > 1"),
        ("größe_1 > @a$ + #b", "\"größe_1\" > \"@a$\" + \"#b\""),
        ("doc.not is null or like > in", "\"doc.not\" is null or \"like\" > \"in\""),
        ("01 + 2. + .5 + 1.e2 + 1e-3", "1 + 2.0 + 0.5 + 100.0 + 0.001"),
    ];
    for (one, other) in same {
        assert_eq!(read(one), read(other), "{one}");
    }
    for (text, name) in [(r#""""a""""#, r#""a""#), ("`a``'b`", "a`'b"), ("\"true\"", "true"), ("\"\"", "")] {
        assert_eq!(read(text), column(name), "{text}");
    }
    let whole = |number: i128| Operand::Value(Scalar::whole(number));
    let float = |number: f64| Operand::Value(Scalar::Float(number));
    let values = [
        ("'it''s \"é\" --'", Operand::text("it's \"é\" --".to_owned())),
        ("''", Operand::text(String::new())),
        ("18446744073709551616", whole(1 << 64)),
        ("170141183460469231731687303715884105727", whole(i128::MAX)),
        ("170141183460469231731687303715884105728", float(2_f64.powi(127))),
        ("1E+2", float(100.0)),
        ("True", Operand::Value(Scalar::Truth(true))),
        ("NULL", Operand::Value(Scalar::Null)),
    ];
    for (text, value) in values {
        assert_eq!(read(text).operand, value, "{text}");
    }
}

#[test]
fn faults_say_where_they_are_and_what_is_there() {
    let cases = [
        ("", "at character 1: expected a column or a value, found the end; use comparisons, and, or"),
        ("lang =", "at character 7: expected a column or a value, found the end; use"),
        ("é = 'ö' lang > 3", "at character 9: expected an operator or the end, found \"lang\"; use"),
        ("a and (b or c", "at character 14: expected an operator or \")\", found the end; use"),
        ("(a, b) = c", "at character 3: expected an operator or \")\", found \",\"; use"),
        ("a = 'en", "at character 8: expected the closing quote, found the end"),
        ("a between 1 or 2", "at character 13: expected an operator or \"and\", found \"or\""),
        ("a is unknown", "at character 6: expected null, true or false, found \"unknown\""),
        ("a in b", "at character 6: expected \"(\", found \"b\""),
        ("a in ()", "at character 7: expected a column or a value, found \")\""),
        ("a in (1, 2", "at character 11: expected an operator, \",\" or \")\", found the end"),
        (
            "lower(lang) = 'en'",
            "at character 1: the function \"lower\" is not supported; use comparisons, and",
        ),
        ("a = cast (b as int)", "at character 5: the function \"cast\" is not supported; use"),
        ("case when a then b end", "at character 6: expected an operator or the end, found \"when\"; use"),
        ("a in (select b from c)", "at character 14: expected an operator, \",\" or \")\", found \"b\"; use"),
        ("a > date '2024-01-20'", "at character 10: expected an operator or the end, found \"'\"; use"),
        ("a = X'00'", "at character 6: expected an operator or the end, found \"'\"; use"),
        ("a = 0x1F", "at character 6: expected an operator or the end, found \"x1F\"; use"),
        ("a like 'b' escape 'c'", "at character 12: expected an operator or the end, found \"escape\"; use"),
        ("a || b = c", "at character 3: expected an operator or the end, found \"||\"; use"),
        ("a::int = 1", "at character 2: expected an operator or the end, found \"::\"; use"),
        ("a.5 = 1", "at character 2: expected an operator or the end, found \".5\"; use"),
        ("a /* = 1", "at character 9: expected \"*/\" after the comment, found the end"),
    ];
    for (text, wanted) in cases {
        let problem = parse(text).expect_err(text);
        assert!(problem.starts_with(wanted), "{text}: {problem}");
    }
}

#[test]
fn what_nests_too_deep_is_refused() {
    let parentheses = |depth: usize| format!("{}a{}", "(".repeat(depth), ")".repeat(depth));
    let before = |prefix: &str, depth: usize| format!("{}a", prefix.repeat(depth));
    let deepest = usize::from(DEEPEST);
    assert_eq!(read(&parentheses(deepest - 1)), column("a"));
    read(&before("not ", deepest - 1));
    for many in [deepest, 100_000] {
        let prefixes = ["not ", "- ", "+", "a = not ", "a in (", "a between 1 and (", "a like (b + "];
        for text in prefixes.map(|prefix| before(prefix, many)).into_iter().chain([parentheses(many)]) {
            let problem = parse(&text).expect_err("too deep");
            assert!(problem.contains("it is nested more than 50 levels deep; use fewer"), "{problem}");
        }
    }
}

#[test]
fn chains_may_be_long() {
    for link in [" or a", " + a * 2", " is null or a", " between 1 and a", " not in (a, 'x')"] {
        let text = format!("b{}", link.repeat(5000));
        let expression = read(&text);
        let mut names = BTreeSet::new();
        expression.names(&mut names);
        assert!(names.into_iter().eq(["a", "b"]), "{link}");
        assert!(expression.steps.len() >= 5000, "{link}");
    }
}

/// A name as a text has it: without quotes if it can be.
fn quoted_name(name: &str) -> String {
    let is_word = |part: &str| {
        let keywords = ["not", "null", "true", "false"];
        let (mut rest, is_keyword) = (part, keywords.iter().any(|word| part.eq_ignore_ascii_case(word)));
        word(&mut rest).is_ok() && rest.is_empty() && !is_keyword
    };
    match name.split('.').all(is_word) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// A text of this expression, with parentheses around everything in it.
fn write(expression: &Expression) -> String {
    let group = |inner: &Expression| format!("({})", write(inner));
    let operand = match &expression.operand {
        Operand::Not(inner) => format!("(not {})", group(inner)),
        Operand::Negative(inner) => format!("(- {})", group(inner)),
        Operand::Column(name) => quoted_name(name),
        Operand::Text(text, _) => format!("'{}'", text.replace('\'', "''")),
        Operand::Value(Scalar::Null) => "null".to_owned(),
        Operand::Value(Scalar::Truth(truth)) => truth.to_string(),
        Operand::Value(Scalar::Exact { digits, .. }) => digits.to_string(),
        Operand::Value(Scalar::Float(number)) => format!("{number:?}"),
        Operand::Value(other) => unreachable!("no text writes {other:?}"),
    };
    let not = |negated: bool| if negated { "not " } else { "" };
    let after = |step: &Step| match step {
        Step::And(right) => format!("and {}", group(right)),
        Step::Or(right) => format!("or {}", group(right)),
        Step::Binary(binary, right) => format!("{} {}", SIGNS[*binary as usize], group(right)),
        Step::Like { pattern, any_case, negated } => {
            format!("{}{} {}", not(*negated), if *any_case { "ilike" } else { "like" }, group(pattern))
        }
        Step::Between { low, high, negated } => {
            format!("{}between {} and {}", not(*negated), group(low), group(high))
        }
        Step::In { list, negated } => {
            let items: Vec<String> = list.iter().map(write).collect();
            format!("{}in ({})", not(*negated), items.join(", "))
        }
        Step::Is { truth, negated } => {
            format!("is {}{}", not(*negated), truth.map_or("null".to_owned(), |truth| truth.to_string()))
        }
    };
    expression.steps.iter().fold(operand, |left, step| format!("({left} {})", after(step)))
}

const BINARIES: [Binary; 11] = [
    Binary::Equal,
    Binary::NotEqual,
    Binary::Less,
    Binary::AtMost,
    Binary::Greater,
    Binary::AtLeast,
    Binary::Plus,
    Binary::Minus,
    Binary::Times,
    Binary::Divide,
    Binary::Remainder,
];

const SIGNS: [&str; 11] = ["=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"];

fn operand_alone() -> impl Strategy<Value = Operand> {
    let name = prop_oneof!["[a-zé_#@][a-z0-9$]{0,3}(\\.[a-z]{1,3})?", ".{0,6}", Just("not".to_owned())];
    let value = prop_oneof![
        (0..=i128::MAX).prop_map(Scalar::whole),
        (0.0..=f64::MAX).prop_map(Scalar::Float),
        (0.0..9.0).prop_map(Scalar::Float),
        any::<bool>().prop_map(Scalar::Truth),
        Just(Scalar::Null),
    ];
    prop_oneof![
        2 => name.prop_map(Operand::Column),
        1 => ".{0,6}".prop_map(Operand::text),
        2 => value.prop_map(Operand::Value),
    ]
}

fn expression() -> impl Strategy<Value = Expression> {
    let alone = operand_alone().prop_map(|operand| Expression { operand, steps: Vec::new() });
    alone.prop_recursive(3, 24, 3, |inner| {
        let boxed = inner.clone().prop_map(Box::new);
        let operand = prop_oneof![
            3 => operand_alone(),
            1 => boxed.clone().prop_map(Operand::Not),
            1 => boxed.prop_map(Operand::Negative),
        ];
        let bounds = (inner.clone(), inner.clone(), any::<bool>());
        let list = prop::collection::vec(inner.clone(), 1..3);
        let flags = any::<(bool, bool)>();
        let step = prop_oneof![
            inner.clone().prop_map(Step::And),
            inner.clone().prop_map(Step::Or),
            (prop::sample::select(BINARIES.to_vec()), inner.clone())
                .prop_map(|(binary, right)| Step::Binary(binary, right)),
            any::<(Option<bool>, bool)>().prop_map(|(truth, negated)| Step::Is { truth, negated }),
            bounds.prop_map(|(low, high, negated)| Step::Between { low, high, negated }),
            (list, any::<bool>()).prop_map(|(list, negated)| Step::In { list, negated }),
            (inner, flags).prop_map(|(pattern, (any_case, negated))| Step::Like {
                pattern,
                any_case,
                negated
            }),
        ];
        let steps = prop::collection::vec(step, 0..4);
        (operand, steps).prop_map(|(operand, steps)| Expression { operand, steps })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_is_read_again(expression in expression()) {
        let text = write(&expression);
        prop_assert_eq!(parse(&text), Ok(expression), "{}", text);
    }

    #[test]
    fn no_text_is_too_strange(
        any in ".*",
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "a", "é.", ".", "1", "1e", ".5", "'", "''", "\"", "`", "(", ")", ",", "=", "<", ">", "!", "-", "--", "/*", "*/",
                "+", "%", " ", "\n", "not", "and", " or ", "in", "between", "like", "is", "null", "true", "select", "\u{0}",
            ]),
            0..20,
        ),
    ) {
        for text in [any, parts.concat(), parts.join(" ")] {
            if let Err(problem) = parse(&text) {
                prop_assert!(problem.starts_with("at character ") && problem.contains("; use "), "{}", problem);
            }
        }
    }
}
