//! What a tokenizer of the Hugging Face libraries puts before a text: read, and written.
//!
//! It stands in the template of `tokenizer.json`: Llama's begins each text with an id, Qwen's does not. The template may
//! be one of several steps.

use std::borrow::Cow;

use serde_json::{Value, json};

/// The special id that the template of a `tokenizer.json` begins a text with.
pub(super) fn begin(tokenizer: &Value) -> Option<u32> {
    let processor = &tokenizer["post_processor"];
    let steps = processor["processors"].as_array().map_or(std::slice::from_ref(processor), Vec::as_slice);
    let template = steps.iter().find(|step| step["type"] == "TemplateProcessing")?;
    let token = template["single"][0]["SpecialToken"]["id"].as_str()?;
    template["special_tokens"][token]["ids"][0].as_u64()?.try_into().ok()
}

/// A `tokenizer.json` that begins each text with `begin`, a token and its id, or with none: as it is, if it does so
/// already.
pub(super) fn beginning<'a>(tokenizer: &'a str, begin: Option<(&str, u32)>) -> Cow<'a, str> {
    let Ok(Value::Object(mut file)) = serde_json::from_str(tokenizer) else { return tokenizer.into() };
    let now = self::begin(&Value::Object(file.clone()));
    if now == begin.map(|(_, id)| id) {
        return tokenizer.into();
    }
    let template = begin.map(|(token, id)| {
        let special = |kind: u8| json!({ "SpecialToken": { "id": token, "type_id": kind } });
        let text = |name: &str, kind: u8| json!({ "Sequence": { "id": name, "type_id": kind } });
        json!({
            "type": "TemplateProcessing",
            "single": [special(0), text("A", 0)],
            "pair": [special(0), text("A", 0), special(1), text("B", 1)],
            "special_tokens": { token: { "id": token, "ids": [id], "tokens": [token] } },
        })
    });
    file.insert("post_processor".to_owned(), template.unwrap_or_default());
    Value::Object(file).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tokenizer_begins_texts_as_it_is_told() {
        let plain = json!({ "model": { "vocab": { "a": 0 } }, "post_processor": { "type": "ByteLevel" } })
            .to_string();
        assert_eq!(beginning(&plain, None), plain);
        let with = beginning(&plain, Some(("<s>", 7)));
        let read: Value = serde_json::from_str(&with).expect("JSON");
        assert_eq!((begin(&read), &read["model"]["vocab"]["a"]), (Some(7), &json!(0)));
        assert_eq!(beginning(&with, Some(("<s>", 7))), with);
        let without: Value = serde_json::from_str(&beginning(&with, None)).expect("JSON");
        assert_eq!((begin(&without), &without["post_processor"]), (None, &Value::Null));
    }

    #[test]
    fn the_first_piece_of_a_template_begins_a_text_if_it_is_special() {
        let (text, token) =
            (json!({ "Sequence": { "id": "A" } }), json!({ "SpecialToken": { "id": "<s>" } }));
        let template = |single: Value| {
            let ids = json!({ "<s>": { "id": "<s>", "ids": [7], "tokens": ["<s>"] } });
            json!({ "type": "TemplateProcessing", "single": single, "special_tokens": ids })
        };
        let of = |processor: Value| begin(&json!({ "post_processor": processor }));
        assert_eq!(of(template(json!([token, text]))), Some(7));
        assert_eq!(of(template(json!([text, token]))), None);
        let steps = json!([{ "type": "ByteLevel" }, template(json!([token, text]))]);
        assert_eq!(of(json!({ "type": "Sequence", "processors": steps })), Some(7));
        assert_eq!(of(json!({ "type": "ByteLevel" })), None);
        assert_eq!(of(Value::Null), None);
    }
}
