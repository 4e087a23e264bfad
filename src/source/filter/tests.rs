//! Expressions over values: what SQL says of them, and what is refused before there are any.

use proptest::prelude::*;

use super::Filter;
use super::check::{Kind, Kinds};
use super::expression::like;
use super::grammar::parse;
use super::scalar::Scalar;
use super::time::Clock;

/// The value of an expression over these columns.
fn evaluate(text: &str, columns: &[(&str, Scalar<'_>)]) -> Option<bool> {
    let expression = parse(text).expect(text);
    let column = |name: &str| columns.iter().find(|(other, _)| *other == name).expect("a column").1;
    expression.evaluate(&column).truth()
}

/// Truth values from false to true: `and` is the lower of two, `or` the higher.
const TRUTHS: [Option<bool>; 3] = [Some(false), None, Some(true)];

#[test]
fn null_stands_between_false_and_true() {
    for (a, left) in TRUTHS.into_iter().enumerate() {
        for (b, right) in TRUTHS.into_iter().enumerate() {
            let columns = [("a", Scalar::from(left)), ("b", Scalar::from(right))];
            let truth = |text: &str| evaluate(text, &columns);
            assert_eq!(truth("a and b"), TRUTHS[a.min(b)], "{left:?} and {right:?}");
            assert_eq!(truth("a or b"), TRUTHS[a.max(b)], "{left:?} or {right:?}");
            assert_eq!(truth("not a"), TRUTHS[2 - a], "not {left:?}");
            assert_eq!(truth("a is true"), Some(left == Some(true)), "{left:?} is true");
            assert_eq!(truth("a is not false"), Some(left != Some(false)), "{left:?} is not false");
            assert_eq!(truth("a is null"), Some(left.is_none()), "{left:?} is null");
            assert_eq!(truth("a = b"), left.zip(right).map(|(left, right)| left == right));
            assert_eq!(truth("a in (b, true)"), truth("a = b or a = true"), "{left:?}, {right:?}");
            assert_eq!(truth("a not between b and true"), truth("not (a >= b and a <= true)"), "{left:?}");
        }
    }
}

#[test]
fn values_are_compared_and_computed() {
    let time = |clock: Clock, text: &str| Scalar::Time(clock.read(text).expect("a time"));
    let columns = [
        ("nothing", Scalar::Null),
        ("big", Scalar::whole(u64::MAX)),
        ("minus", Scalar::whole(-1)),
        ("nan", Scalar::Float(f64::NAN)),
        ("zero", Scalar::Float(-0.0)),
        ("price", Scalar::Exact { digits: 1990, scale: 2 }),
        ("dime", Scalar::Exact { digits: 10, scale: 2 }),
        ("thousands", Scalar::Exact { digits: 5, scale: -3 }),
        ("fine", Scalar::Exact { digits: i128::MAX, scale: 38 }),
        ("word", Scalar::Text("b")),
        ("bytes", Scalar::Bytes(b"b\xff")),
        ("day", time(Clock::UTC, "2024-02-29")),
        ("at", time(Clock::in_zone("+02:00"), "2024-01-31T12:30:00")),
        ("noon", time(Clock::OfDay, "12:00:00")),
        ("list", Scalar::Other),
    ];
    let [no, yes, null] = [Some(false), Some(true), None];
    let cases = [
        ("minus < big and not big < minus", yes),
        ("big + 1 > big and minus - big = -18446744073709551616", yes),
        ("big * big * big > big * big", yes),
        ("-7 / 2 = -3 and -7 % 2 = -1 and 7 / 2.0 = 3.5", yes),
        ("nan = nan and nan > 1e308 and nan <> 0", yes),
        ("zero = 0 and zero >= 0", yes),
        ("1 / 0 = 1 or 1 % zero = 1 or 0.0 / 0 <> 0 or nan / '0' = nan", null),
        ("price / 0.00 > 0 or price % 0 = 1 or 1 / (dime - dime) > 0", null),
        ("0 / price = 0 and 1 / 1e-300 > 1e299", yes),
        ("price = 19.9 and price + dime = 20 and price > 19", yes),
        ("dime + dime + dime = 0.3 and price % 1 = 0.9", yes),
        ("thousands = 5000 and thousands * 2 = 10000", yes),
        ("fine > 1 and fine < big", yes),
        ("big > '17' and '1.5' < 2", yes),
        ("big > 'many'", null),
        ("nothing + 1 = 1 or -nothing = 1", null),
        ("word = 'b' and word < 'ba' and bytes > word", yes),
        ("bytes like 'b%'", null),
        ("word like nothing", null),
        ("word in ('a', null)", null),
        ("word not in ('a', 'b', null)", no),
        ("1 between 2 and null", no),
        ("1 not between 0 and null", null),
        ("nothing = null", null),
        ("list is not null and nothing is null", yes),
        ("day = '2024-02-29' and '2024-02-28T23:59:59.9Z' < day", yes),
        ("day < '2024-02-29T00:00:00-00:01' and day < '2024-03-01'", yes),
        ("at = '2024-01-31T12:30' and at = '2024-01-31 10:30:00Z'", yes),
        ("at < day and at > '1969-12-31'", yes),
        ("at = '2024-01-31T05:00-0530' and at = '2024-01-31 12:30:00.0 +02'", yes),
        ("noon < '12:00:00.000000001' and noon > '11:59:59'", yes),
        ("day = 'some day'", null),
        ("noon = '2024-01-31'", null),
    ];
    for (text, wanted) in cases {
        assert_eq!(evaluate(text, &columns), wanted, "{text}");
    }
}

#[test]
fn kinds_that_do_not_fit_are_refused() {
    let cases = [
        ("word > 3", "column \"word\" is text, and cannot be compared with a number"),
        ("truth > 3", "column \"truth\" is true or false, and cannot be compared with a number"),
        ("day = noon", "column \"day\" is a date or time, and cannot be compared with a time of day"),
        ("list = null", "column \"list\" is a value of List, and cannot be compared with null"),
        ("3 in (1, 'x')", "\"x\" is not a number"),
        ("'x' between 1 and 2", "\"x\" is not a number"),
        (
            "day > 'some day'",
            "column \"day\" is a date or time, and \"some day\" is not; write it as 2024-01-31 or 2024-01-31T12:30:00Z",
        ),
        ("day in ('12:30:00')", "column \"day\" is a date or time, and \"12:30:00\" is not"),
        (
            "noon < '2024-01-31'",
            "column \"noon\" is a time of day, and \"2024-01-31\" is not; write it as 12:30:00",
        ),
        ("zoned > '2024-01-31T12:30:00'", "write it as 2024-01-31T12:30:00Z, with an offset from UTC"),
        ("3 > word", "column \"word\" is text, and cannot be compared with a number"),
        ("number + 1 = truth", "column \"truth\" is true or false, and cannot be compared with a number"),
        ("(number > 1) = 1", "true or false cannot be compared with a number"),
        ("year > 3", "column \"year\" is \"x\", and not a number"),
        ("noon < year", "column \"year\" is \"x\", and not a time of day; write it as 12:30:00"),
        (
            "number + day = 1",
            "column \"day\" is a date or time, and stands where a number must be; times are compared by =, <, >",
        ),
        ("day - '1 day' > day", "column \"day\" is a date or time, and stands where a number must be"),
        ("-word = 1", "column \"word\" is text, and stands where a number must be"),
        ("number + 'x' = 1", "column \"number\" is a number, and \"x\" is not"),
        (
            "number like '1%'",
            "column \"number\" is a number, and stands where text must be; numbers are compared by =, <, >",
        ),
        ("word like 1", "a number stands where text must be"),
        ("not number", "column \"number\" is a number, and stands where true or false must be"),
        ("truth or word", "column \"word\" is text, and stands where true or false must be"),
        ("number is true", "column \"number\" is a number, and stands where true or false must be"),
    ];
    let column = |name: &str| match name {
        "truth" => Kind::Truth,
        "number" => Kind::Number,
        "word" => Kind::Text,
        "day" => Kind::Time(Clock::UTC),
        "zoned" => Kind::Time(Clock::in_zone("Europe/Zurich")),
        "noon" => Kind::Time(Clock::OfDay),
        "year" => Kind::Constant("x".to_owned()),
        _ => Kind::Other("List".to_owned()),
    };
    let kinds = Kinds { of: column, are_of_all_rows: true };
    let check = |text: &str| {
        let expression = parse(text).expect(text);
        expression.check(&kinds)?.truth()
    };
    for (text, wanted) in cases {
        let problem = check(text).expect_err(text);
        assert!(problem.contains(wanted), "{text}: {problem}");
    }
    let sound = [
        "number > '3' and '3' < number + 1",
        "number in (1, '2', null)",
        "day > '2024-01-31' and day < word and noon <> '12:30:00'",
        "zoned > '2024-01-31T12:30:00+01:00' and zoned > day",
        "truth = (list is null) and null",
        "word not like 'a%' or word ilike null",
    ];
    for text in sound {
        assert_eq!(check(text), Ok(Kind::Truth), "{text}");
    }
}

#[test]
fn dates_and_zones_are_read() {
    let days = |text: &str| Clock::UTC.read(text).map(|time| time.nanos / 86_400_000_000_000);
    let dates = [
        ("1970-01-01", Some(0)),
        ("1969-12-31", Some(-1)),
        ("2000-02-29", Some(11_016)),
        ("2100-03-01", Some(47_541)),
        ("0000-03-01", Some(-719_468)),
        ("9999-12-31", Some(2_932_896)),
        (" 1970-01-02 ", Some(1)),
        ("2100-02-29", None),
        ("12:30:00", None),
    ];
    for (text, wanted) in dates {
        assert_eq!(days(text), wanted, "{text}");
    }
    let zones = [
        ("UTC", Some(0)),
        ("+05:30", Some(330)),
        ("-0330", Some(-210)),
        ("-00:30", Some(-30)),
        ("-08", Some(-480)),
        ("Europe/Zurich", None),
        ("+", None),
        ("+1", None),
        ("+01:0", None),
        ("+1:00", None),
        ("+24:00", None),
        ("+01:60", None),
        ("+0é", None),
    ];
    for (zone, offset) in zones {
        assert_eq!(Clock::in_zone(zone), Clock::Calendar { offset }, "{zone}");
        let at = Clock::in_zone("Europe/Zurich").read(&format!("2024-01-31T12:30{zone}"));
        assert_eq!(at.is_some(), offset.is_some() && zone != "UTC", "{zone}");
    }
    assert_eq!(Clock::UTC.read("2024-01-31T12:30Z+01:00"), None);
    assert_eq!(Clock::OfDay.read("12:30:00.000+01:00"), None);
}

#[test]
fn any_case_is_that_of_all_alphabets() {
    for (text, pattern) in [("ÉTÉ", "é_é"), ("οδος", "ΟΔΟΣ"), ("Straße", "STRAßE"), ("a\nK", "A%k")]
    {
        assert!(like(text, pattern, true) && !like(text, pattern, false), "{text}");
    }
    assert!(!like("SS", "ß", true));
}

/// What `like` is, tried out.
fn is_like(text: &[char], pattern: &[char], any_case: bool) -> bool {
    match pattern {
        [] => text.is_empty(),
        ['%', rest @ ..] => (0..=text.len()).any(|from| is_like(&text[from..], rest, any_case)),
        ['_', rest @ ..] => !text.is_empty() && is_like(&text[1..], rest, any_case),
        ['\\', wanted, rest @ ..] | [wanted, rest @ ..] => {
            text.split_first().is_some_and(|(found, behind)| {
                let is_same = found == wanted || (any_case && found.eq_ignore_ascii_case(wanted));
                is_same && is_like(behind, rest, any_case)
            })
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whole_numbers_are_compared_whatever_their_sign(a in any::<i64>(), b in any::<u64>(), c in -3..3_i8) {
        let columns = [("a", Scalar::whole(a)), ("b", Scalar::whole(b)), ("c", Scalar::whole(c))];
        let (a, b, c) = (i128::from(a), i128::from(b), i128::from(c));
        prop_assert_eq!(evaluate("a < b", &columns), Some(a < b));
        prop_assert_eq!(evaluate("c >= a", &columns), Some(c >= a));
        prop_assert_eq!(evaluate(&format!("a + b * c - ({a}) > {b}"), &columns), Some(b * c > b));
        prop_assert_eq!(evaluate(&format!("'{a}' <= a and a between '{a}' and b"), &columns), Some(a <= b));
    }

    #[test]
    fn a_row_is_asked_as_if_it_were_the_only_one(
        rows in prop::collection::vec(prop_oneof![(0..12_i32).prop_map(Ok), "[01]?[0-9](\\.0)?".prop_map(Err)], 1..9),
        filter in prop::sample::select(vec!["a = '1'", "a in ('01', '1.0')", "a < '9' or a between '2' and '10'"]),
    ) {
        let (all, filter) = (Filter::parse(filter).expect("it parses"), filter);
        for row in &rows {
            let kind = |_: &str| if row.is_ok() { Kind::Number } else { Kind::Text };
            let value = |_: &str| row.as_ref().map_or_else(|text| Scalar::Text(text), |n| Scalar::whole(*n));
            let alone = Filter::parse(filter).expect("it parses").check(kind).expect("it fits");
            let wanted = Ok(alone.is_true(&value));
            prop_assert_eq!(all.is_true(kind, value), wanted, "{} of {:?} in {:?}", filter, row, rows);
        }
    }

    #[test]
    fn an_offset_is_read_however_it_is_written(minutes in -1439..1440_i16) {
        let (sign, hours, rest) = (if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60);
        let at = |offset: &str| Clock::UTC.read(&format!("2024-01-31T12:30:00{offset}")).map(|time| time.nanos);
        let utc = at("Z").expect("a time");
        let before = |minutes: i16| Some(utc - i128::from(minutes) * 60_000_000_000);
        for offset in [format!("{sign}{hours:02}:{rest:02}"), format!(" {sign}{hours:02}{rest:02}")] {
            prop_assert_eq!(at(&offset), before(minutes), "{}", offset);
        }
        prop_assert_eq!(at(&format!("{sign}{hours:02}")), before(minutes - minutes % 60));
    }

    #[test]
    fn like_finds_what_trying_out_finds(
        text in "[aAbé%\\\\]{0,8}",
        pattern in "[aAbé%_\\\\]{0,8}",
        any_case in any::<bool>(),
    ) {
        let [letters, wanted]: [Vec<char>; 2] = [&text, &pattern].map(|text| text.chars().collect());
        prop_assert_eq!(like(&text, &pattern, any_case), is_like(&letters, &wanted, any_case));
    }
}
