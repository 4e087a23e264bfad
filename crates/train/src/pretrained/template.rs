//! Sets the tokens that a `tokenizer.json` puts before a text, as
//! [`Template`](millstream::tokenizer::template::Template) reads them.

use std::borrow::Cow;

use serde_json::{Value, json};

use millstream::tokenizer::template::{adds, steps};

/// A `tokenizer.json` that puts `begin`, a token and its id, before each text, or nothing, and adds nothing else. It is
/// unchanged if it does so already.
pub(super) fn beginning<'a>(tokenizer: &'a str, begin: Option<(&str, u32)>) -> Cow<'a, str> {
    let Ok(Value::Object(mut file)) = serde_json::from_str(tokenizer) else { return tokenizer.into() };
    let processor = file.get("post_processor").cloned().unwrap_or_default();
    let (adding, others): (Vec<&Value>, Vec<&Value>) =
        steps(&processor).into_iter().partition(|step| adds(step));
    let is_so = match adding.as_slice() {
        [] => begin.is_none(),
        [step] => adds_only(step, begin),
        _ => false,
    };
    if is_so {
        return tokenizer.into();
    }
    let others = others.into_iter().filter(|step| !step.is_null()).cloned();
    let mut steps: Vec<Value> = others.chain(begin.map(template)).collect();
    let processor = match steps.len() {
        0 | 1 => steps.pop().unwrap_or_default(),
        _ => json!({ "type": "Sequence", "processors": steps }),
    };
    file.insert("post_processor".to_owned(), processor);
    Value::Object(file).to_string().into()
}

/// Whether a step puts `begin`, or nothing, before a text, and nothing after it.
fn adds_only(step: &Value, begin: Option<(&str, u32)>) -> bool {
    let pieces = step["single"].as_array().and_then(|pieces| pieces.split_last());
    let Some((text, before)) = pieces else { return false };
    let is_so = match (before, begin) {
        ([], None) => true,
        ([piece], Some((_, id))) => {
            let token = piece["SpecialToken"]["id"].as_str();
            token.is_some_and(|token| step["special_tokens"][token]["ids"] == json!([id]))
        }
        _ => false,
    };
    is_so && text["Sequence"]["id"] == "A"
}

/// The processor that begins each text with a token.
fn template((token, id): (&str, u32)) -> Value {
    let special = |kind: u8| json!({ "SpecialToken": { "id": token, "type_id": kind } });
    let text = |name: &str, kind: u8| json!({ "Sequence": { "id": name, "type_id": kind } });
    json!({
        "type": "TemplateProcessing",
        "single": [special(0), text("A", 0)],
        "pair": [special(0), text("A", 0), special(1), text("B", 1)],
        "special_tokens": { token: { "id": token, "ids": [id], "tokens": [token] } },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::tokenizer::template::Template;

    #[test]
    fn a_tokenizer_begins_texts_as_it_is_told() {
        let plain = json!({ "model": { "vocab": { "a": 0 } }, "post_processor": { "type": "ByteLevel" } })
            .to_string();
        assert_eq!(beginning(&plain, None), plain);
        let with = beginning(&plain, Some(("<s>", 7)));
        let read: Value = serde_json::from_str(&with).expect("JSON");
        let template = Template::read(with.as_bytes());
        assert_eq!((template.before, template.after), (vec![("<s>".to_owned(), 7)], vec![]));
        assert_eq!(read["model"]["vocab"]["a"], json!(0));
        assert_eq!(beginning(&with, Some(("<s>", 7))), with);
        let without: Value = serde_json::from_str(&beginning(&with, None)).expect("JSON");
        assert_eq!(without["post_processor"], json!({ "type": "ByteLevel" }));
        // A template alone leaves nothing.
        let alone = beginning("{}", Some(("<s>", 7)));
        assert_eq!(beginning(&alone, None), json!({ "post_processor": null }).to_string());
    }

    #[test]
    fn whatever_else_a_tokenizer_adds_is_taken_out() {
        let (byte_level, end) = (json!({ "type": "ByteLevel" }), json!(["<|endoftext|>", 9]));
        let roberta = json!({ "type": "RobertaProcessing", "sep": end, "cls": ["<s>", 7] });
        let bert = json!({ "type": "BertProcessing", "sep": end, "cls": ["<s>", 7] });
        let a = json!({ "Sequence": { "id": "A", "type_id": 0 } });
        let token = |name: &str| json!({ "SpecialToken": { "id": name, "type_id": 0 } });
        let of = |single: Value| {
            let ids = |name: &str, id: u32| json!({ "id": name, "ids": [id], "tokens": [name] });
            let ids = json!({ "<s>": ids("<s>", 7), "<|endoftext|>": ids("<|endoftext|>", 9) });
            json!({ "type": "TemplateProcessing", "single": single, "special_tokens": ids })
        };
        let sequence = |steps: Value| json!({ "type": "Sequence", "processors": steps });
        let after = of(json!([a, token("<|endoftext|>")]));
        let around = of(json!([token("<s>"), a, token("<|endoftext|>")]));
        let twice = of(json!([token("<s>"), token("<s>"), a]));
        let (plain, begun) = (of(json!([a])), of(json!([token("<s>"), a])));
        let written = |processor: &Value, begin: Option<(&str, u32)>| {
            let file = json!({ "post_processor": processor }).to_string();
            let file: Value = serde_json::from_str(&beginning(&file, begin)).expect("JSON");
            file["post_processor"].clone()
        };
        let start = Some(("<s>", 7));
        for other in [&after, &around, &twice, &roberta, &bert] {
            let several = sequence(json!([byte_level, sequence(json!([other]))]));
            assert_eq!(written(other, None), Value::Null);
            assert_eq!(written(other, start), template(("<s>", 7)));
            assert_eq!(written(&several, None), byte_level);
            assert_eq!(written(&several, start), sequence(json!([byte_level, template(("<s>", 7))])));
        }
        let both = sequence(json!([begun, after]));
        assert_eq!(written(&both, start), template(("<s>", 7)));
        for (processor, begin) in [(&plain, None), (&begun, start), (&byte_level, None)] {
            for processor in [processor.clone(), sequence(json!([byte_level, processor]))] {
                assert_eq!(written(&processor, begin), processor);
            }
        }
        assert_eq!(written(&begun, Some(("<|endoftext|>", 9))), template(("<|endoftext|>", 9)));
    }
}
