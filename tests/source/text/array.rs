//! `.json` files that are one array, over generated elements and as Python writes them.

use millstream::config::{OnError, Oversize, SourceConfig, SourceKind};
use millstream::{LaneCursor, Meter};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::corpus::{Corpus, all, bound, drain, open, run, texts};

fn config(corpus: &Corpus) -> SourceConfig {
    SourceConfig { kind: SourceKind::Jsonl, field: Some("text".to_owned()), ..corpus.lines() }
}

/// Elements, how they are written, and whether with a byte order mark, white space around, and a compressed file.
#[derive(Clone, Debug)]
struct Array {
    elements: Vec<Value>,
    is_pretty: bool,
    bom: bool,
    blank: &'static str,
    is_packed: bool,
}

impl Array {
    fn text(&self) -> String {
        let array = match self.is_pretty {
            true => serde_json::to_string_pretty(&self.elements).expect("JSON"),
            false => serde_json::to_string(&self.elements).expect("JSON"),
        };
        format!("{}{}{array}{}", if self.bom { "\u{feff}" } else { "" }, self.blank, self.blank)
    }

    fn corpus(&self) -> Corpus {
        let text = self.text().into_bytes();
        match self.is_packed {
            true => Corpus::new([("a.json.zst", packed(text))]),
            false => Corpus::new([("a.json", text)]),
        }
    }

    fn wanted(&self) -> Vec<&str> {
        self.elements
            .iter()
            .filter_map(|element| element["text"].as_str())
            .filter(|text| !text.is_empty())
            .collect()
    }
}

/// The text as it lies on disk. What a file is called says nothing.
fn packed(text: Vec<u8>) -> Vec<u8> {
    zstd::encode_all(&text[..], 1).expect("packed")
}

fn array() -> impl Strategy<Value = Array> {
    let text = "[a-zé漢,\"\\\\\\[\\]{}\n\t ]{0,20}";
    let element = (text, text, any::<bool>()).prop_map(|(text, other, is_deep)| match is_deep {
        true => json!({ "other": [{ "a": other }, [], {}], "text": text }),
        false => json!({ "text": text, other: null }),
    });
    let blank = prop::sample::select(vec!["", "\n", " \r\n\t"]);
    (prop::collection::vec(element, 0..30), any::<[bool; 3]>(), blank).prop_map(
        |(elements, [is_pretty, bom, is_packed], blank)| Array { elements, is_pretty, bom, blank, is_packed },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn each_element_is_a_document_and_every_cursor_resumes(array in array(), slab in 4_usize..400, is_small: bool) {
        let corpus = array.corpus();
        run(async {
            let split = is_small.then(|| bound(16));
            let source = open(&SourceConfig { split, ..config(&corpus) }).await.with_slab_bytes(slab);
            let whole = all(source.documents(&LaneCursor::default())).await;
            let mut wanted = array.wanted();
            let mut seen = texts(&whole);
            if is_small {
                wanted.sort_unstable();
                seen.sort_unstable();
            }
            prop_assert_eq!(seen, wanted);
            for (index, seen) in whole.iter().enumerate() {
                let rest = all(source.documents(&seen.cursor)).await;
                prop_assert_eq!(&rest, &whole[index + 1..], "after element {}", index);
            }
            Ok(())
        })?;
    }

    #[test]
    fn nothing_in_an_array_panics_or_hangs(bytes in prop::collection::vec(prop::sample::select(b"[]{}\",:\\ \n1t\xff".to_vec()), 0..200)) {
        let corpus = Corpus::new([("a.json", [b"[".to_vec(), bytes].concat())]);
        run(async {
            let config = SourceConfig { on_error: OnError::Skip(1000), ..config(&corpus) };
            let (seen, error) = drain(open(&config).await.documents(&LaneCursor::default())).await;
            prop_assert!(error.is_none(), "{error:?}");
            prop_assert!(seen.iter().all(|seen| !seen.text.is_empty()));
            Ok(())
        })?;
    }
}

#[test]
fn what_is_wrong_in_an_array_is_said_with_its_line_and_the_rest_is_read() {
    let cases = [
        (
            "[\n  {\"text\": \"one\"},\n  7,\n  {\"text\": \"two\"}\n]\n",
            "a.json:3 (byte 23): ",
            &["one", "two"][..],
        ),
        (
            "[\n  {\"text\": \"one\"},\n  {\"text\": 1},\n  {\"text\": \"two\"}\n]",
            "a.json:3 (byte ",
            &["one", "two"],
        ),
        (
            "[\n  {\"text\": \"one\"},\n  {\"text\": \"t",
            "a.json:3 (byte 23): the element that begins here",
            &["one"],
        ),
        ("[\n  {\"text\": \"one\"}\n", "a.json:3 (byte 20): the array does not end", &["one"]),
        ("[\n  {\"text\": \"one\"}\n]\n[]", "a.json:3 (byte 20): the array ends here", &["one"]),
    ];
    for (text, told, wanted) in cases {
        let corpus = Corpus::new([("a.json", text)]);
        run(async {
            let (seen, error) = drain(open(&config(&corpus)).await.documents(&LaneCursor::default())).await;
            assert_eq!(texts(&seen), ["one"], "{text}");
            let error = error.expect("an error").to_string();
            assert!(error.contains(told), "{error}");

            let meter = Meter::new("source");
            let skipping = SourceConfig { on_error: OnError::Skip(1), ..config(&corpus) };
            let source = open(&skipping).await.with_meter(meter.clone());
            assert_eq!(texts(&all(source.documents(&LaneCursor::default())).await), wanted);
            assert_eq!(meter.snapshot().skipped, 1);
        });
    }
}

#[test]
fn an_element_beyond_the_bound_follows_the_policy() {
    let long = "x".repeat(100_000);
    let corpus = Corpus::new([(
        "a.json",
        json!([{ "text": "one" }, { "text": long }, { "text": "two" }]).to_string(),
    )]);
    run(async {
        let skipping =
            SourceConfig { max_document_bytes: bound(100), oversize: Oversize::Skip, ..config(&corpus) };
        let seen = all(open(&skipping).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one", "two"]);
        let failing = SourceConfig { oversize: Oversize::Error, ..skipping };
        let (seen, error) = drain(open(&failing).await.documents(&LaneCursor::default())).await;
        assert_eq!(texts(&seen), ["one"]);
        assert!(error.expect("an error").to_string().contains("max_document_bytes"));
    });
}
