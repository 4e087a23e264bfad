//! A template that asks for too much is refused, and soon; and where ranges are where the reference gives others.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{Input, Template};
use crate::render::json::Json;

fn render(source: &str) -> Result<(String, Vec<Range<usize>>), String> {
    let messages = [Json::parse(r#"{"role": "user", "content": "hi"}"#).expect("JSON")];
    let input = Input {
        messages: &messages,
        tools: None,
        documents: None,
        kwargs: &[],
        add_generation_prompt: false,
    };
    let template = Template::compile(source, &[], None).map_err(|e| e.what)?;
    template.render(&input).map(|text| (text.text, text.generated)).map_err(|e| e.what)
}

#[test]
fn what_takes_too_long_or_writes_too_much_is_refused() {
    let endless = [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{{ 'x' * 99999 }}{% endfor %}",
        "{{ 'x' * 99999999999 }}",
        "{{ 'x' | indent(99999999999) }}",
        "{{ messages | tojson(indent=99999999999) }}",
        "{{ 'a'.replace('', 'x' * 99999) * 99999 }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set n = namespace(x='x') %}{% for a in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[0]) %}{% for a in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}",
        "{% set n = namespace(x=[0]) %}{% for a in range(64) %}{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
        "{% set n = namespace(x=[]) %}{% for a in range(9999) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n = namespace(x='') %}{% for a in range(99999) %}{% set n.x = n.x ~ 'xxxxxxxxxxxxxxxx' %}{% endfor %}",
    ];
    for source in endless {
        let began = Instant::now();
        assert!(render(source).is_err(), "{source}");
        // Without bounds, they take years.
        assert!(began.elapsed() < Duration::from_secs(600), "{source} takes {:?}", began.elapsed());
    }
}

/// Lists that share their parts, so that comparing two of them part by part takes for ever.
#[test]
fn comparing_shared_parts_is_bounded() {
    for last in ["n.a == n.b", "n.a in [n.b]", "[n.a] | select('eq', n.b) | list"] {
        let source = format!(
            "{{% set n = namespace(a=[0], b=[0]) %}}{{% for i in range(64) %}}{{% set n.a = [n.a, n.a] %}}\
             {{% set n.b = [n.b, n.b] %}}{{% endfor %}}{{{{ {last} }}}}"
        );
        assert!(render(&source).is_err_and(|e| e.contains("fuel")), "{last}");
    }
}

/// One long text a hundred thousand times.
#[test]
fn what_is_done_to_each_item_is_bounded() {
    for last in [
        "map('upper')", "map('replace', 'x', 'y')", "select('eq', s ~ '')", "sort",
        "sort(case_sensitive=true)",
    ] {
        let source = format!(
            "{{% set s = 'x' * 999999 %}}{{% set n = namespace(l=[s]) %}}{{% for i in range(17) %}}\
             {{% set n.l = n.l + n.l %}}{{% endfor %}}{{{{ n.l | {last} | list | length }}}}"
        );
        assert!(render(&source).is_err_and(|e| e.contains("fuel")), "{last}");
    }
}

#[test]
fn a_namespace_is_no_part_of_another_value() {
    for value in ["n", "[n]", "{'n': n}", "namespace(n=n)"] {
        let source = format!("{{% set n = namespace() %}}{{% set n.n = {value} %}}");
        assert!(render(&source).is_err_and(|e| e.contains("cannot be part")), "{value}");
    }
}

#[test]
fn what_would_crash_the_machine_is_refused() {
    for call in ["loop.cycle()", "loop.cycle(*[])", "loop.changed(messages)"] {
        let source = format!("{{% for m in messages %}}{{{{ {call} }}}}{{% endfor %}}");
        assert_eq!(
            render(&source),
            Err("the chat template cannot be read: `loop` has no methods".to_owned())
        );
    }
}

#[test]
fn a_deep_template_does_not_overflow_the_stack() {
    let deep = [
        format!("{{{{ {}1{} }}}}", "(".repeat(8000), ")".repeat(8000)),
        format!("{{{{ {}1{} }}}}", "[".repeat(8000), "]".repeat(8000)),
        format!("{{{{ {}1 }}}}", "not ".repeat(4000)),
        format!("{{{{ 1{} }}}}", "+1".repeat(8000)),
        format!("{}{}", "{% if 1 %}".repeat(20_000), "{% endif %}".repeat(20_000)),
        format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(4000)),
    ];
    for source in deep {
        // An answer or an error, but no crash.
        let _ = render(&source);
    }
}

#[test]
fn ranges_are_where_the_text_comes_to_stand() {
    let block = "{% generation %}é{{ messages[0].content }}{% endgeneration %}";
    let cases: [(String, &str, &[[usize; 2]]); 7] = [
        (format!("a{block}"), "aéhi", &[[1, 5]]),
        (format!("{{% macro f() %}}--{block}{{% endmacro %}}a{{{{ f() }}}}"), "a--éhi", &[[3, 7]]),
        (
            format!("{{% set x %}}-{block}{{% endset %}}a{{{{ x }}}}{{{{ x }}}}"),
            "a-éhi-éhi",
            &[[2, 6], [7, 11]],
        ),
        (format!("{{% set x %}}{block}{{% endset %}}a"), "a", &[]),
        (format!("{{% set x %}} {block} {{% endset %}}{{{{ x | trim }}}}"), "éhi", &[[0, 4]]),
        ("{% generation %}{% endgeneration %}a".to_owned(), "a", &[]),
        (format!("{{% generation %}}a{block}{{% endgeneration %}}"), "aéhi", &[[0, 5]]),
    ];
    for (source, text, ranges) in cases {
        let ranges = ranges.iter().map(|[start, end]| *start..*end).collect();
        assert_eq!(render(&source), Ok((text.to_owned(), ranges)), "{source}");
    }
}
