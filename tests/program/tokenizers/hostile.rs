//! Files and texts that ask for too much, or that an engine gives up on: each is an error, and soon.

use std::path::{Path, PathBuf};

use millstream::config::SpecialTokens;
use millstream::tokenizer::Tokenizer;
use millstream::tokenizer::hf::{Check, Engine, HfTokenizer};
use serde_json::{Value, json};

use crate::program;

/// Many letters without an exclamation mark behind them can be grouped in too many ways to try. The fast engine does
/// not know this pattern.
const BACKTRACKS: &str = r"(?:\p{L}+)+(?=!)|\p{L}+|\p{N}|[^\p{L}\p{N}]";

fn file(name: &str) -> PathBuf {
    crate::support::root().join(format!("tests/data/tokenizers/gate/{name}.json"))
}

/// A file of the gate after `change`.
fn changed(name: &str, change: impl FnOnce(&mut Value)) -> String {
    let text = std::fs::read_to_string(file(name)).expect("it is there");
    let mut json = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    json.to_string()
}

fn load(json: &str) -> millstream::Result<HfTokenizer> {
    HfTokenizer::from_json("hostile.json", json, SpecialTokens::Text)
}

fn encode(tokenizer: &HfTokenizer, text: &str) -> Result<Vec<u32>, String> {
    let mut ids = Vec::new();
    tokenizer.encode(text, &mut ids).map(|()| ids).map_err(String::from)
}

fn replaces(pairs: &[(&str, String)]) -> Value {
    let replace = |(text, content): &(&str, String)| json!({"type": "Replace", "pattern": {"String": text}, "content": content});
    json!({"type": "Sequence", "normalizers": pairs.iter().map(replace).collect::<Vec<_>>()})
}

/// As a regex that finds nothing more, the rest of the text would be one word, with other ids.
#[test]
fn a_pattern_that_gives_up_is_an_error() {
    let slow = HfTokenizer::from_file(file("digits-2"), SpecialTokens::Text).expect("it loads");
    assert!(matches!(slow.engine(), Engine::Reference { .. }));
    let blank = format!("{}a mill\n", " ".repeat(1_100_000));
    let problem = encode(&slow, &blank).expect_err("the regex gives up");
    assert!(problem.contains("the tokenizer's pattern") && problem.contains("gives up on"), "{problem}");
    assert!(problem.len() < 400, "{problem}");
    assert_eq!(
        encode(&slow, &blank[1_090_000..]).map(|ids| slow.decode(&ids)).as_deref(),
        Ok(&blank[1_090_000..])
    );

    let backtracks = changed("cl100k", |file| {
        file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!(BACKTRACKS);
    });
    let slow = load(&backtracks).expect("it loads");
    assert!(matches!(slow.engine(), Engine::Reference { .. }));
    let problem = encode(&slow, &format!("{}1", "a".repeat(40))).expect_err("the regex gives up");
    assert!(problem.contains("gives up on"), "{problem}");
    encode(&slow, "a mill of 1234").expect("ids");
}

/// What the reference gives up on is no reason to refuse the fast engine, nor to call its ids wrong.
#[test]
fn the_gate_does_not_trust_a_reference_that_gives_up() {
    for name in ["cl100k", "gpt2", "o200k"] {
        let mut tokenizer = HfTokenizer::from_file(file(name), SpecialTokens::Parse).expect("it loads");
        let blank = format!("{}a mill\n", " ".repeat(HfTokenizer::TRIAL - 7));
        assert_eq!(tokenizer.trial([&blank]), Engine::Fast, "{name}");
        let ids = encode(&tokenizer, &blank).expect("ids");
        assert_eq!(tokenizer.decode(&ids), blank, "{name}");
        let check = Check::new(&tokenizer).expect("there is a fast engine");
        let unknown = check.compare(&blank).expect_err("nothing to compare with");
        assert!(
            unknown.is_unknown() && unknown.fast.is_ok() && unknown.reference.is_err(),
            "{name} {unknown}"
        );
    }
}

#[test]
fn a_document_that_is_given_up_on_follows_the_policy() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    let backtracks = changed("cl100k", |file| {
        file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!(BACKTRACKS);
    });
    std::fs::write(path("tokenizer.json"), backtracks).expect("written");
    let bad = format!("{}1\n", "a".repeat(40));
    let good: Vec<String> = (0..40).map(|number| format!("a mill {number}\n")).collect();
    std::fs::write(path("good.txt"), good.concat()).expect("written");
    std::fs::write(path("bad.txt"), [&good[..20], &[bad], &good[20..]].concat().concat()).expect("written");
    let config = |name: &str, on_error: &str| {
        let text = format!(
            "[[source]]\npaths = [{:?}]\n{on_error}\n[tokenizer]\npath = {:?}\n[pipeline]\nseq_len = 16\nbatch_size = \
             2\nepochs = 1\nlast = \"short\"\nshuffle_splits = false\nwindow = 1\nlanes = 1\n",
            path(name),
            path("tokenizer.json")
        );
        std::fs::write(path("run.toml"), text).expect("written");
        path("run.toml")
    };
    let digest = |config: &str| program::json(&["digest", config])["digest"].clone();
    let right = digest(&config("good.txt", ""));
    let (code, said) = program::failure(&["digest", &config("bad.txt", "")]);
    let position: usize = good[..20].iter().map(String::len).sum();
    assert_eq!(code, 1);
    assert!(said.contains(&format!("bad.txt:21 (byte {position}): the tokenizer's pattern")), "{said}");
    assert_eq!(digest(&config("bad.txt", "on_error = { skip = 1 }")), right);
}

#[test]
fn the_check_says_what_it_cannot_compare() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).display().to_string();
    std::fs::write(path("a.txt"), format!("{}a mill\na mill\n", " ".repeat(1_100_000))).expect("written");
    let config = format!(
        "[[source]]\npaths = [{:?}]\n[tokenizer]\npath = {:?}\n",
        path("a.txt"),
        file("cl100k").display()
    );
    std::fs::write(path("check.toml"), config).expect("written");
    let report = program::json(&["tokenizer", "check", &path("check.toml")]);
    assert_eq!(
        (&report["documents"], &report["differing"], &report["unknown"]),
        (&json!(2), &json!(0), &json!(1))
    );
    let shown = report["differences"][0].as_str().expect("a text").to_owned();
    assert!(shown.contains("a.txt:1") && shown.contains("cannot be compared"), "{shown}");
    let said = program::text(&["tokenizer", "check", &path("check.toml")]);
    assert!(said.contains("0 differ, 1 cannot be compared"), "{said}");
}

#[test]
fn an_id_far_beyond_the_tokens_is_refused() {
    let far = |id: u64| changed("cl100k", |file| file["model"]["vocab"]["zzmillzz"] = json!(id));
    let problem = load(&far(100_000_000)).expect_err("no such table").to_string();
    assert!(problem.contains("\"zzmillzz\" has the id 100000000") && problem.contains("below"), "{problem}");
    assert_eq!(load(&far(100_000)).expect("a gap is allowed").vocab_size(), 100_001);
}

#[test]
fn a_text_that_grows_out_of_bounds_is_refused() {
    let grows = |pairs: &[(&str, String)]| changed("cl100k", |file| file["normalizer"] = replaces(pairs));
    let hundred = || "a".repeat(100);
    let chain = grows(&[("a", hundred()), ("a", hundred()), ("a", hundred()), ("a", hundred())]);
    let tokenizer = load(&chain).expect("it loads");
    for (text, bytes) in [("a mill", 6), (&*"a".repeat(50_000), 50_000)] {
        let problem = encode(&tokenizer, text).expect_err("it is too long");
        let said = format!(
            "the tokenizer's normalizer makes more than {} bytes of its {bytes}",
            (16 * bytes).max(65536)
        );
        assert_eq!(problem, said);
    }
    encode(&tokenizer, "the mill is big".replace('a', "").as_str()).expect("nothing is replaced");
    // A regex that may find nothing, everywhere; and a chain behind another step.
    let empty = changed("cl100k", |file| {
        file["normalizer"] =
            json!({"type": "Replace", "pattern": {"Regex": "x*"}, "content": "y".repeat(1000)});
    });
    encode(&load(&empty).expect("it loads"), &"a".repeat(100_000)).expect_err("it is too long");
    // What is usual: a mark for each space.
    let usual = load(&grows(&[(" ", "▁".to_owned()), ("``", "\"".to_owned())])).expect("it loads");
    encode(&usual, &" ".repeat(100_000)).expect("three times as long");
}

#[test]
fn a_file_that_asks_for_too_much_is_refused() {
    let refused = |change: &dyn Fn(&mut Value)| {
        load(&changed("cl100k", change)).expect_err("it asks for too much").to_string()
    };
    let said = refused(&|file| {
        file["normalizer"] =
            replaces(&[("a", "a".repeat(1000)), ("a", "a".repeat(1000)), ("a", "a".repeat(1000))]);
        let mut token = file["added_tokens"][0].clone();
        (token["content"], token["normalized"], token["id"]) = (json!("aaaa"), json!(true), json!(5000));
        file["added_tokens"].as_array_mut().expect("a list").push(token);
    });
    assert!(said.contains("the added token \"aaaa\": the tokenizer's normalizer makes more than"), "{said}");
    let said = refused(&|file| file["normalizer"] = json!({"type": "Prepend", "prepend": "a".repeat(5000)}));
    assert!(said.contains("its normalizer prepends 5000 bytes"), "{said}");
    let said = refused(&|file| {
        let bytes =
            json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false});
        file["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": vec![bytes; 40]});
    });
    assert!(said.contains("its pre_tokenizer has 40 steps"), "{said}");
}

#[test]
fn a_decoder_that_makes_texts_too_long_is_refused() {
    let decodes = |decoders: Vec<Value>| {
        load(&changed("cl100k", |file| file["decoder"] = json!({"type": "Sequence", "decoders": decoders})))
    };
    let replace = |text: &str, content: &str| json!({"type": "Replace", "pattern": {"String": text}, "content": content});
    let long = replace("a", &"b".repeat(300));
    let said = decodes(vec![long.clone(); 4]).expect_err("it is too long").to_string();
    assert!(said.contains("its decoder may make a text 8100000000 times as long"), "{said}");
    let inner = json!({"type": "Sequence", "decoders": [replace("a", "bbbbbb")]});
    let said = decodes(vec![inner.clone(), json!({"type": "Fuse"}), inner]).expect_err("6 x 6").to_string();
    assert!(said.contains("its decoder may make a text 36 times as long"), "{said}");
    let alone = changed("cl100k", |file| file["decoder"] = long);
    let said = load(&alone).expect_err("it is too long").to_string();
    assert!(said.contains("its decoder may make a text 300 times as long"), "{said}");
    // Llama's.
    decodes(vec![
        replace("▁", " "),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
        json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}),
    ])
    .expect("it loads");
}

#[test]
fn a_template_that_adds_too_much_is_refused() {
    let processes =
        |processor: &Value| load(&changed("cl100k", |file| file["post_processor"] = processor.clone()));
    let special = |token: &str| json!({"SpecialToken": {"id": token, "type_id": 0}});
    let text = |id: &str| json!({"Sequence": {"id": id, "type_id": 0}});
    let template = |single: Vec<Value>, pair: Vec<Value>, ids: usize| {
        let token = |id: &str| json!({"id": id, "ids": vec![1; ids], "tokens": vec![id; ids]});
        let tokens = json!({"[CLS]": token("[CLS]"), "[SEP]": token("[SEP]")});
        json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens})
    };
    let pair = || vec![text("A"), text("B")];
    let many = |times: usize| [vec![special("[CLS]"); times], vec![text("A")]].concat();
    let sequence = |processors: &[Value]| json!({"type": "Sequence", "processors": processors});
    for (processor, what) in [
        (template(many(2000), pair(), 100_000), "adds 200000000 ids to a text (`single`)"),
        (
            template(vec![text("A")], [many(4097), vec![text("B")]].concat(), 1),
            "adds 4097 ids to a text (`pair`)",
        ),
        (sequence(&[sequence(&[template(many(1), pair(), 5000)])]), "adds 5000 ids to a text (`single`)"),
        (sequence(&vec![template(many(1), pair(), 3000); 2]), "adds 6000 ids to a text (`single`)"),
        (template(vec![text("A"); 17], pair(), 1), "holds texts 17 times (`single`)"),
    ] {
        let said = processes(&processor).expect_err(what).to_string();
        assert!(said.contains(&format!("its post_processor {what}")), "{said}");
    }
    let right = encode(&processes(&Value::Null).expect("it loads"), "a mill");
    let bert = template(
        vec![special("[CLS]"), text("A"), special("[SEP]")],
        vec![special("[CLS]"), text("A"), special("[SEP]"), text("B"), special("[SEP]")],
        1,
    );
    let llama = template(many(1), [many(1), vec![special("[CLS]"), text("B")]].concat(), 1);
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true});
    for processor in [sequence(&[bytes, llama.clone()]), llama, bert, template(many(4096), pair(), 1)] {
        assert_eq!(encode(&processes(&processor).expect("it loads"), "a mill"), right);
    }
}

#[test]
#[cfg(unix)]
fn only_files_of_a_sensible_size_are_read() {
    let directory = tempfile::tempdir().expect("a directory");
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    for path in [Path::new("/dev/zero"), &pipe, directory.path()] {
        let problem = HfTokenizer::from_file(path, SpecialTokens::Text).expect_err("no file").to_string();
        assert!(
            problem.ends_with("name a tokenizer.json or a file of ranks with tokenizer.path"),
            "{problem}"
        );
    }
    let large = directory.path().join("large.json");
    let file = std::fs::File::create(&large).expect("a file");
    file.set_len((256 << 20) + 1).expect("a hole");
    let problem = HfTokenizer::from_file(&large, SpecialTokens::Text).expect_err("too large").to_string();
    assert!(problem.contains("it has more than 268435456 bytes"), "{problem}");
    let config = directory.path().join("run.toml");
    std::fs::write(&config, "[[source]]\npaths = [\"*.txt\"]\n[tokenizer]\npath = \"/dev/zero\"\n")
        .expect("written");
    std::fs::write(directory.path().join("a.txt"), "a mill\n").expect("written");
    let output = program::millstream(&["inspect", "run.toml"])
        .current_dir(directory.path())
        .output()
        .expect("it runs");
    let said = program::said(&output);
    assert!(!output.status.success() && said.contains("/dev/zero: it is not a regular file"), "{said}");
}
