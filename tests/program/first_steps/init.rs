//! `millstream init`: the config that it writes for each kind of files loads, and a loader runs on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millstream::Config;
use millstream::config::{DocumentKind, PackRule, SourceKind, Task, TokenizerKind};
use tempfile::TempDir;

use super::{failure, root, run, text};
use crate::chats_in_files::{Chat, KINDS, written};
use crate::support::pointer::POINTER;

/// A directory to work in.
fn workplace() -> TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Where a file of the tests' data is.
fn data(name: &str) -> PathBuf {
    root().join("tests/data").join(name)
}

/// Copies a file or a directory, links as the files that they lead to.
fn copy(from: &Path, to: &Path) {
    if !from.is_dir() {
        fs::copy(from, to).expect("a copy");
        return;
    }
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let name = entry.expect("an entry").file_name();
        copy(&from.join(&name), &to.join(&name));
    }
}

/// Lets the program write a config, runs the loader on it, and gives the config.
fn made(directory: &Path, arguments: &[&str]) -> Config {
    let said = text(directory, &[&["init"], arguments].concat());
    assert!(said.starts_with("wrote millstream.toml: "), "{said}");
    let bench = run(directory, &["bench", "loader", "millstream.toml", "-n", "3"]);
    let config = fs::read_to_string(directory.join("millstream.toml")).expect("a config");
    assert!(bench.status.success(), "{}\n{config}", String::from_utf8_lossy(&bench.stderr));
    assert!(String::from_utf8_lossy(&bench.stdout).contains("3 batches"), "{bench:?}");
    Config::load(directory.join("millstream.toml")).unwrap_or_else(|e| panic!("{e}\n{config}"))
}

/// What one source of the config for these files is: its kind and its field.
fn one(files: &[&str]) -> (SourceKind, Option<String>) {
    let directory = workplace();
    let names: Vec<&str> = files.iter().map(|file| file.rsplit('/').next().expect("a name")).collect();
    for (file, name) in files.iter().zip(&names) {
        copy(&data(file), &directory.path().join(name));
    }
    let config = made(directory.path(), &names);
    assert_eq!(config.sources.len(), 1, "{:?}", config.sources);
    (config.sources[0].kind, config.sources[0].field.clone())
}

fn some(field: &str) -> Option<String> {
    Some(field.to_owned())
}

#[test]
fn tables_in_columns() {
    for file in ["snappy.parquet", "dictionary.parquet", "zstd.parquet", "binary.parquet"] {
        assert_eq!(one(&[&format!("formats/{file}")]), (SourceKind::Parquet, some("text")), "{file}");
    }
    for file in ["stream.arrow", "file.arrow", "view.arrow", "lz4.arrow"] {
        assert_eq!(one(&[&format!("formats/{file}")]), (SourceKind::Arrow, some("text")), "{file}");
    }
    // Alike, they are one source.
    assert_eq!(one(&["formats/snappy.parquet", "formats/gzip.parquet"]).0, SourceKind::Parquet);
}

#[test]
fn archives() {
    assert_eq!(one(&["formats/webdataset.tar"]).0, SourceKind::Tar);
    assert_eq!(one(&["formats/pax.tar.gz"]).0, SourceKind::Tar);
}

#[test]
fn mosaics_shards() {
    for directory in ["formats/mds", "formats/mds-zstd", "formats/mds-gz"] {
        assert_eq!(one(&[directory]), (SourceKind::Mds, some("text")));
    }
}

#[test]
fn directories_of_the_hugging_face_libraries() {
    for directory in ["saved", "saved_parts", "cache", "listed", "plain"] {
        let (kind, field) = one(&[&format!("huggingface/{directory}")]);
        assert_eq!((kind, field), (SourceKind::Huggingface, some("text")), "{directory}");
    }
}

#[test]
fn a_split_of_another_name_is_asked_for() {
    let directory = workplace();
    copy(&data("huggingface/shards"), &directory.path().join("corpus"));
    let said = failure(directory.path(), &["init", "corpus"]);
    assert!(said.contains("--part: ") && said.contains("train_a, train_b"), "{said}");
    let config = made(directory.path(), &["corpus", "--part", "train_b"]);
    assert_eq!(config.sources[0].part.as_deref(), Some("train_b"));
    copy(&data("huggingface/listed"), &directory.path().join("languages"));
    let config = made(directory.path(), &["languages", "--subset", "de", "--force"]);
    assert_eq!(config.sources[0].subset.as_deref(), Some("de"));
    assert_eq!(made(directory.path(), &["languages", "--force"]).sources[0].subset, None, "the default one");
}

#[test]
fn a_program_beside_its_tests_is_no_dataset() {
    let directory = workplace();
    for name in ["train.py", "test_train.py", "snapshots/a.py", "state.json"] {
        let path = directory.path().join("program").join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, "def train():\n    pass\n".repeat(50)).expect("a file");
    }
    let config = made(directory.path(), &["program"]);
    assert_eq!(
        (config.sources[0].kind, &config.sources[0].paths[..]),
        (SourceKind::Text, &["program/**/*.py".to_owned()][..])
    );
}

#[test]
fn compressed_text_by_its_content() {
    for file in ["one.gz", "pzstd.zst", "program.xz", "streams.bz2"] {
        let directory = workplace();
        // Whatever its name is.
        fs::copy(data(&format!("compressed/{file}")), directory.path().join("text.bin")).expect("a copy");
        let config = made(directory.path(), &["text.bin"]);
        assert_eq!(config.sources[0].kind, SourceKind::Text, "{file}");
    }
}

#[test]
fn records_in_lines() {
    let directory = workplace();
    let line = |n: usize| {
        format!("{{\"url\": \"https://example.org/{n}\", \"doc\": {{\"body\": \"the text of {n}\"}}}}\n")
    };
    fs::write(directory.path().join("a.jsonl"), (0..300).map(line).collect::<String>()).expect("a file");
    let config = made(directory.path(), &["a.jsonl"]);
    assert_eq!(
        (config.sources[0].kind, config.sources[0].field.as_deref()),
        (SourceKind::Jsonl, Some("doc.body"))
    );
    let toml = fs::read_to_string(directory.path().join("millstream.toml")).expect("a config");
    assert!(toml.contains("other fields: url"), "{toml}");
    let config = made(directory.path(), &["a.jsonl", "--field", "url", "--force"]);
    assert_eq!(config.sources[0].field.as_deref(), Some("url"));

    let tables =
        [("a.csv", ',', SourceKind::Csv), ("a.csv", ';', SourceKind::Csv), ("a.tsv", '\t', SourceKind::Tsv)];
    for (name, mark, kind) in tables {
        let directory = workplace();
        let row = |n: usize| format!("{n}{mark}\"said {n}, and\n\"\"more\"\"\"{mark}x\n");
        let rows: String = (0..200).map(row).collect();
        fs::write(directory.path().join(name), format!("id{mark}said{mark}tag\n{rows}")).expect("a file");
        let config = made(directory.path(), &[name]);
        assert_eq!((config.sources[0].kind, config.sources[0].field.as_deref()), (kind, Some("said")));
    }
}

#[test]
fn conversations_and_completions() {
    let chat = r#"{"conversations": [{"from": "human", "value": "1 + 1?"}, {"from": "gpt", "value": "2"}]}"#;
    let alpaca = r#"{"instruction": "Add.", "input": "1 + 1", "output": "2"}"#;
    let pair = r#"{"prompt": "1 + 1 = ", "completion": "2"}"#;
    for (line, task, field) in [
        (chat, Task::Chat, Some("conversations")),
        (alpaca, Task::Chat, None),
        (pair, Task::Completion, None),
    ] {
        let directory = workplace();
        fs::write(directory.path().join("a.jsonl"), format!("{line}\n").repeat(300)).expect("a file");
        let said = text(directory.path(), &["init", "a.jsonl"]);
        assert!(said.contains("about 300 documents"), "{said}");
        assert_eq!(said.contains("first name the model's chat template"), task == Task::Chat, "{said}");
        // The template may come later.
        let config = Config::load(directory.path().join("millstream.toml")).expect("a config");
        let source = &config.sources[0];
        assert_eq!((source.task, source.field.as_deref()), (task, field));
        assert_eq!(config.pipeline.pack, PackRule::BestFit);
        // Bytes are the tokens of so little text.
        assert!(config.pipeline.seq_len >= 2 * line.len(), "{}", config.pipeline.seq_len);

        // In an array, however it is written, a document is an element and not a line.
        let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let records = vec![record; 300];
        for array in [serde_json::to_string(&records), serde_json::to_string_pretty(&records)] {
            fs::write(directory.path().join("a.json"), array.expect("JSON")).expect("a file");
            let said = text(directory.path(), &["init", "a.json", "--force"]);
            assert!(said.contains("about 300 documents"), "{said}");
            let array = Config::load(directory.path().join("millstream.toml")).expect("a config");
            assert_eq!(array.pipeline.holdout, config.pipeline.holdout);
            assert!(array.pipeline.seq_len >= 2 * line.len(), "{}", array.pipeline.seq_len);
        }
    }
    for kind in KINDS {
        let directory = workplace();
        let turn = |n: usize| Chat(vec![("user", format!("{n} + 1?")), ("assistant", format!("{}", n + 1))]);
        let source = written(kind, directory.path(), &(0..300).map(turn).collect::<Vec<_>>());
        text(directory.path(), &["init", &source.paths[0]]);
        let config = Config::load(directory.path().join("millstream.toml")).expect("a config");
        let source = &config.sources[0];
        assert_eq!((source.kind, source.task, source.field.as_deref()), (kind, Task::Chat, None));
    }
}

#[test]
fn the_end_of_text_is_the_models_own() {
    let directory = workplace();
    let model = directory.path().join("model");
    fs::create_dir(&model).expect("a directory");
    let file = model.join("tokenizer.json");
    let added = r#"[{"id": 0, "content": "<|endoftext|>"}, {"id": 1, "content": "<|im_end|>"}]"#;
    fs::write(&file, format!(r#"{{"model": {{}}, "added_tokens": {added}}}"#)).expect("a file");
    fs::write(directory.path().join("a.txt"), "a line\n".repeat(300)).expect("a file");
    let eos = |force: &[&str]| {
        let arguments = [&["init", "a.txt", "--tokenizer", "model/tokenizer.json"], force].concat();
        text(directory.path(), &arguments);
        Config::load(directory.path().join("millstream.toml")).expect("a config").tokenizer.eos
    };
    assert_eq!(eos(&[]).as_deref(), Some("<|endoftext|>"));
    let settings = r#"{"eos_token": "<|im_end|>", "chat_template": "{{ eos_token }}"}"#;
    fs::write(model.join("tokenizer_config.json"), settings).expect("a file");
    assert_eq!(eos(&["--force"]).as_deref(), Some("<|im_end|>"));
}

#[test]
fn pairs_of_other_names_are_completions() {
    for (record, fields) in [
        (r#"{"query": "1 + 1 = ", "response": "2"}"#, r#"{ prompt = "query", completion = "response" }"#),
        (r#"{"question": "1 + 1?", "answer": "2"}"#, r#"{ prompt = "question", completion = "answer" }"#),
        (r#"{"prompt": "1 + 1 = ", "response": "2"}"#, r#"{ completion = "response" }"#),
        (
            r#"{"instruction": "Add.", "context": "1 + 1", "response": "2"}"#,
            r#"{ prompt = "instruction", completion = "response" } # not used: context"#,
        ),
    ] {
        let directory = workplace();
        fs::write(directory.path().join("a.jsonl"), format!("{record}\n").repeat(300)).expect("a file");
        assert_eq!(made(directory.path(), &["a.jsonl"]).sources[0].task, Task::Completion);
        let toml = fs::read_to_string(directory.path().join("millstream.toml")).expect("a config");
        assert!(toml.contains(&format!("chat.fields = {fields}")), "{toml}");
    }
}

#[test]
fn what_lies_beside_a_corpus_is_left_out() {
    let directory = workplace();
    let corpus = directory.path().join("corpus");
    fs::create_dir(&corpus).expect("a directory");
    let records = "{\"text\": \"a document\"}\n".repeat(100);
    for end in ["jsonl", "jsonl.bak", "jsonl.tmp", "jsonl.part", "jsonl.crdownload", "jsonl.md5", "jsonl~"] {
        fs::write(corpus.join(format!("a.{end}")), &records).expect("a file");
    }
    fs::write(corpus.join("meta.json"), r#"{"license": "MIT", "version": "2"}"#).expect("a file");
    #[cfg(unix)]
    std::os::unix::fs::symlink("nowhere", corpus.join("README")).expect("a link");
    let output = run(directory.path(), &["init", "corpus", "-o", "-"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    for word in ["1 .bak file", "1 .part file", "1 .md5 file", "1 .jsonl~ file", "1 .json file"] {
        assert!(told.contains(word), "{told}");
    }
    let config = made(directory.path(), &["corpus"]);
    assert_eq!(config.sources.len(), 1);
    assert_eq!(config.sources[0].paths, ["corpus/*.jsonl"]);

    // One odd file is left out by its name.
    fs::write(corpus.join("b.jsonl"), b"\xff\xfe{\0}\0\n\0").expect("a file");
    let said = text(directory.path(), &["init", "corpus", "--force"]);
    assert!(said.contains("left out 1 .jsonl file: ") && said.contains("about 100 documents"), "{said}");
}

#[test]
fn what_is_named_twice_is_read_once() {
    let directory = workplace();
    let books = directory.path().join("books");
    fs::create_dir_all(books.join("old")).expect("a directory");
    for name in ["a.txt", "b.txt", "old/c.txt"] {
        fs::write(books.join(name), "Chapter 1 of a book\n".repeat(100)).expect("a file");
    }
    for paths in [&["books", "books"][..], &["books/b.txt", "books"]] {
        let said = text(directory.path(), &[&["init", "--force"], paths].concat());
        assert!(said.contains(" 1 source, ") && said.contains("about 300 documents"), "{said}");
    }
    for (arguments, word) in [
        (&["books", "books/old"][..], "books/old lies in books"),
        (&["books", "--tokenizer", "books/a.txt"][..], "neither a tokenizer.json nor a file of ranks"),
        (&["books", "--subset", "x"][..], "--subset"),
    ] {
        let said = failure(directory.path(), &[&["init", "--force"], arguments].concat());
        assert!(said.contains(word), "{said}");
    }
}

#[test]
fn files_that_hold_different_records_are_sources_of_their_own() {
    let directory = workplace();
    let corpus = directory.path().join("corpus");
    fs::create_dir(&corpus).expect("a directory");
    let file = |name: &str, content: &str| fs::write(corpus.join(name), content).expect("a file");
    file("a.jsonl", &"{\"text\": \"a document\"}\n".repeat(100));
    file("b.jsonl", &"{\"content\": \"a document\", \"n\": 1}\n".repeat(100));
    file("c.jsonl", &"{\"text\": \"another\", \"n\": 1}\n".repeat(100));
    file("list.json", "[\n  {\"text\": \"an element\"},\n  {\"text\": \"another\"}\n]\n");
    file("settings.json", "{\n  \"text\": \"no record\"\n}\n");
    file("open.csv", "id,body\n1,\"open\n");
    file("notes", "without an ending\n");
    let said = text(directory.path(), &["init", "corpus"]);
    for word in ["open.csv:2", "left out 1 .json file, 1 file without an extension"] {
        assert!(said.contains(word), "{said}");
    }
    let config = made(directory.path(), &["corpus", "--force"]);
    let sources = config.sources.iter();
    let found: Vec<_> = sources
        .map(|source| (source.paths.iter().map(String::as_str).collect::<Vec<_>>(), source.field.as_deref()))
        .collect();
    let [a, b, c, list] = ["a.jsonl", "b.jsonl", "c.jsonl", "list.json"].map(|name| format!("corpus/{name}"));
    assert_eq!(found, [(vec![&*list, &a, &c], Some("text")), (vec![&*b], Some("content"))]);

    // Too many to name each of them: it cannot be told which hold what.
    for number in 0..100 {
        file(&format!("{number}.jsonl"), "{\"text\": \"one\"}\n");
    }
    let said = failure(directory.path(), &["init", "corpus", "--force"]);
    for word in ["103 .jsonl files", "b.jsonl", "name the files of one kind"] {
        assert!(said.contains(word), "{said}");
    }
}

/// A config in the directory of the texts leaves out what its runs write there.
#[test]
fn runs_beside_the_texts_are_no_texts() {
    let workplace = workplace();
    let write = |name: &str, text: &str| {
        let path = workplace.path().join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    write("letters/a.txt", &"The mill stands by the stream.\n".repeat(300));
    write("recipes/old/b.txt", &"Take three cups of flour.\n".repeat(300));
    let config = made(workplace.path(), &[]);
    assert_eq!(config.sources[0].paths, ["letters/*.txt", "recipes/**/*.txt"]);
    let run = "runs/millstream";
    for name in ["config.toml", "files.jsonl", "metrics.jsonl", "checkpoints/step-00000001/blake3.txt"] {
        write(&format!("{run}/{name}"), &"{\"text\": \"a line of a run\"}\n".repeat(300));
    }
    assert_eq!(made(workplace.path(), &["--force"]).sources, config.sources);

    // A run elsewhere, in a directory with texts.
    write("data/web/a.jsonl", &"{\"text\": \"a page\"}\n".repeat(300));
    for name in ["config.toml", "files.jsonl", "metrics.jsonl"] {
        write(&format!("data/tried/run/{name}"), &"{\"text\": \"a line of a run\"}\n".repeat(300));
    }
    write("data/tried/b.jsonl", &"{\"text\": \"a page\"}\n".repeat(300));
    let of_data = made(workplace.path(), &["data", "--force"]);
    assert_eq!(of_data.sources[0].paths, ["data/tried/*.jsonl", "data/web/*.jsonl"]);
    assert_eq!(of_data.sources.len(), 1);

    made(workplace.path(), &["--force", "letters", "recipes"]);
    fs::remove_dir_all(workplace.path().join("runs")).expect("removed");
    let all = ["--set", "source.0.paths=[\"**/*.txt\"]"];
    for command in ["train", "check"] {
        let said = failure(workplace.path(), &[&[command, "millstream.toml"], &all[..]].concat());
        for word in ["train.out", "source.0.paths", "step-00000001/blake3.txt"] {
            assert!(said.contains(word), "{command}: {said}");
        }
    }
    // Whatever the run has written so far.
    for log in ["cursors", "settings", "unused"] {
        write(&format!("runs/millstream/{log}.jsonl"), "{}\n");
        let paths = format!("source.0.paths=[\"letters/*.txt\", \"runs/millstream/{log}*\"]");
        assert!(
            failure(workplace.path(), &["check", "millstream.toml", "--set", &paths]).contains("train.out")
        );
    }
    // Wherever the run is begun.
    let around = ["train", "../millstream.toml", "--set", "source.0.paths=[\"../**/*.txt\"]"];
    assert!(failure(&workplace.path().join("letters"), &around).contains("step-00000001/blake3.txt"));
}

#[cfg(unix)]
#[test]
fn links_in_a_circle_and_cards_without_end() {
    use std::os::unix::fs::symlink;
    let workplace = workplace();
    let corpus = workplace.path().join("corpus");
    std::fs::create_dir_all(corpus.join("sub")).expect("a directory");
    std::fs::write(corpus.join("sub/a.jsonl"), "{\"text\":\"one\"}\n".repeat(50)).expect("a file");
    symlink(&corpus, corpus.join("sub/around")).expect("a link");
    // Beside them, what would be read for ever.
    for name in ["README.md", "index.json", "manifest.json"] {
        symlink("/dev/zero", corpus.join(name)).expect("a link");
    }
    let said = text(workplace.path(), &["init", "corpus"]);
    assert!(said.contains(" 1 source, about 150 bytes of text in about 50 documents"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_directory_called_like_home_is_itself_and_a_pipe_is_not_waited_for() {
    let workplace = workplace();
    for directory in ["~", "~root"] {
        std::fs::create_dir_all(workplace.path().join(directory)).expect("a directory");
        std::fs::write(workplace.path().join(directory).join("a.jsonl"), "{\"text\":\"one\"}\n".repeat(50))
            .expect("a file");
        let config = made(workplace.path(), &[directory]);
        assert_eq!(config.sources[0].paths, [format!("./{directory}/*.jsonl")]);
        std::fs::remove_file(workplace.path().join("millstream.toml")).expect("removed");
    }
    let pipe = workplace.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("it runs").success());
    for path in ["pipe", "/dev/zero"] {
        let output = run(workplace.path(), &["init", path]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(&format!("{path} is a pipe, socket or device")), "{said}");
    }
}

#[test]
fn documents_of_a_small_file_are_counted_whatever_else_is_in_them() {
    let directory = workplace();
    let more = "x".repeat(9000);
    let lines = |count: usize| -> String {
        (0..count).map(|n| format!("{{\"text\": \"line {n}\", \"more\": \"{more}\"}}\n")).collect()
    };
    let rows: String = (0..300).map(|n| format!("{n},\"a text, {n}\"\n")).collect();
    for (name, content, documents) in [
        ("few.jsonl", lines(20), 20),
        ("more.jsonl", lines(100), 100),
        ("rows.csv", format!("id,text\n{rows}"), 300),
    ] {
        fs::write(directory.path().join(name), content).expect("a file");
        let said = text(directory.path(), &["init", name, "--force"]);
        assert!(said.contains(&format!(" in about {documents} documents\n")), "{said}");
    }
}

#[test]
fn a_hold_out_has_some_documents() {
    let directory = workplace();
    for documents in [99, 100, 399, 400, 3999, 4000, 199_999, 200_000] {
        fs::write(directory.path().join("a.jsonl"), "{\"text\": \"one\"}\n".repeat(documents))
            .expect("a file");
        text(directory.path(), &["init", "a.jsonl", "--force"]);
        let config = Config::load(directory.path().join("millstream.toml")).expect("a config");
        let held_out = config.pipeline.holdout * documents as f64;
        assert_eq!(held_out >= 10.0, documents >= 100, "{held_out} of {documents}");
        assert_eq!(held_out == 0.0, documents < 100, "{held_out} of {documents}");
    }
}

#[test]
fn plain_text_of_three_manners() {
    let cases = [
        ("a line of a poem\nand another\n\n".repeat(300), 1, DocumentKind::Paragraph),
        (format!("{}\n", "an article in a line ".repeat(40)).repeat(60), 1, DocumentKind::Line),
        ("a file\n\nof some length\n".repeat(20), 30, DocumentKind::File),
    ];
    for (content, files, document) in cases {
        let directory = workplace();
        let corpus = directory.path().join("corpus/below");
        fs::create_dir_all(&corpus).expect("a directory");
        for file in 0..files {
            fs::write(corpus.join(format!("{file}.txt")), &content).expect("a file");
        }
        fs::write(directory.path().join("corpus/README.md"), "about it").expect("a file");
        fs::write(directory.path().join("corpus/picture.png"), [0x89, b'P', b'N', b'G', 0, 0xff])
            .expect("a file");
        let config = made(directory.path(), &["corpus"]);
        let [source] = &config.sources[..] else { panic!("{:?}", config.sources) };
        assert_eq!((source.kind, source.document), (SourceKind::Text, document));
        assert_eq!(source.paths, ["corpus/**/*.txt"]);
    }
}

#[test]
fn a_directory_of_several_kinds_has_several_sources() {
    let directory = workplace();
    let corpus = directory.path().join("my [corpus]");
    fs::create_dir_all(corpus.join("b")).expect("a directory");
    fs::write(corpus.join("a.txt"), "a line of text\n".repeat(2000)).expect("a file");
    fs::write(corpus.join("b/records.jsonl"), "{\"text\": \"a document\"}\n".repeat(2000)).expect("a file");
    fs::copy(data("formats/snappy.parquet"), corpus.join("b/rows.parquet")).expect("a copy");
    let config = made(directory.path(), &["my [corpus]"]);
    let kinds: Vec<SourceKind> = config.sources.iter().map(|source| source.kind).collect();
    assert_eq!(kinds, [SourceKind::Jsonl, SourceKind::Parquet, SourceKind::Text]);
    assert!(config.sources.iter().all(|source| source.name.is_some()));
    assert!(config.pipeline.holdout > 0.0);
    // Without a path it is the directory that the program runs in; what it wrote there is no text of the corpus.
    let config = made(&corpus, &[]);
    assert_eq!(config.sources.len(), 3);
    assert_eq!(config.sources[2].paths, ["*.txt"]);
}

#[test]
fn files_without_an_extension() {
    let directory = workplace();
    let corpus = directory.path().join("corpus");
    fs::create_dir(&corpus).expect("a directory");
    for part in 0..3 {
        let records = "{\"text\": \"a document\"}\n".repeat(100);
        fs::write(corpus.join(format!("part-{part}")), records).expect("a file");
    }
    let config = made(directory.path(), &["corpus"]);
    assert_eq!(
        (config.sources[0].kind, &config.sources[0].paths[..]),
        (SourceKind::Jsonl, &["corpus/*".to_owned()][..])
    );
    // Beside others they are no part of the corpus.
    fs::write(corpus.join("a.jsonl"), "{\"text\": \"another\"}\n".repeat(100)).expect("a file");
    let config = made(directory.path(), &["corpus", "--force"]);
    assert_eq!(config.sources[0].paths, ["corpus/*.jsonl"]);
}

#[test]
fn token_shards() {
    let directory = workplace();
    fs::write(directory.path().join("a.txt"), "some text to be tokenized\n".repeat(9000)).expect("a file");
    let config = made(directory.path(), &["a.txt"]);
    assert_eq!(config.tokenizer.train.map(|train| train.vocab_size), Some(512));
    text(directory.path(), &["prepare", "millstream.toml", "-o", "shards"]);
    let config = made(directory.path(), &["shards", "--force"]);
    assert_eq!(config.sources[0].kind, SourceKind::Shards);
    assert_eq!(config.tokenizer.path.as_deref(), Some(Path::new("shards/tokenizer.json")));
    assert_eq!(config.tokenizer.eos.as_deref(), Some("<|endoftext|>"));

    // Bytes need no file.
    text(
        directory.path(),
        &[
            "prepare", "millstream.toml", "-o", "bytes", "--set", "source.0.kind=text", "--set",
            "source.0.paths=[\"a.txt\"]", "--set", "tokenizer={kind=\"bytes\"}",
        ],
    );
    let config = made(directory.path(), &["bytes", "--force"]);
    assert_eq!(config.tokenizer.kind, TokenizerKind::Bytes);
}

#[test]
fn the_tokenizer_that_lies_there_is_taken() {
    let directory = workplace();
    fs::write(directory.path().join("a.txt"), "some text\n".repeat(100)).expect("a file");
    assert_eq!(made(directory.path(), &["a.txt"]).tokenizer.kind, TokenizerKind::Bytes);
    let tokenizer = data("tokenizers/gate/gpt2.json");
    let given =
        made(directory.path(), &["a.txt", "--force", "--tokenizer", tokenizer.to_str().expect("a path")]);
    assert_eq!(given.tokenizer.path.as_deref(), Some(&*tokenizer));
    fs::copy(&tokenizer, directory.path().join("tokenizer.json")).expect("a copy");
    let found = made(directory.path(), &["a.txt", "--force"]);
    assert_eq!(found.tokenizer.path.as_deref(), Some(Path::new("tokenizer.json")));
}

#[test]
fn pointers_that_git_lfs_left_are_named() {
    for name in ["a.txt", "a.jsonl", "a.parquet", "a.arrow", "tokenizer.json"] {
        let directory = workplace();
        fs::write(directory.path().join("other.txt"), "some text\n".repeat(100)).expect("a file");
        fs::write(directory.path().join(name), POINTER).expect("a file");
        let said = failure(directory.path(), &["init", "other.txt", name]);
        assert!(said.contains(name) && said.contains("git lfs pull"), "{said}");
    }
}

#[test]
fn a_config_is_never_written_over_unasked() {
    let directory = workplace();
    fs::write(directory.path().join("a.txt"), "some text\n".repeat(100)).expect("a file");
    fs::write(directory.path().join("millstream.toml"), "seed = 7\n").expect("a file");
    let said = failure(directory.path(), &["init", "a.txt"]);
    assert!(said.contains("millstream.toml exists already") && said.contains("--force"), "{said}");
    assert_eq!(fs::read_to_string(directory.path().join("millstream.toml")).expect("a file"), "seed = 7\n");
    made(directory.path(), &["a.txt", "--force"]);
    let printed = text(directory.path(), &["init", "a.txt", "-o", "-"]);
    assert_eq!(
        printed.replace("runs/-", ""),
        fs::read_to_string(directory.path().join("millstream.toml")).expect("it")
    );
    let there: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(there.len(), 2, "nothing else is left there: {there:?}");
}

#[test]
fn what_it_says_next_can_be_pasted() {
    let directory = workplace();
    fs::write(directory.path().join("a.txt"), "some text\n".repeat(100)).expect("a file");
    let said = text(directory.path(), &["init", "a.txt", "-o", "my config.toml"]);
    let commands: Vec<&str> =
        said.lines().skip(1).filter_map(|line| line.split_once(":  ")).map(|(_, c)| c.trim()).collect();
    assert_eq!(commands.len(), 3, "{said}");
    assert!(commands[1].ends_with(" bench loader 'my config.toml'"), "{said}");
    let pasted = format!("{} -n 3", commands[1]);
    let output =
        Command::new("sh").args(["-c", &pasted]).current_dir(directory.path()).output().expect("a shell");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = text(directory.path(), &["init", "a.txt", "-o", "other.toml", "--json"]);
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!((&report["config"], &report["sources"]), (&"other.toml".into(), &1.into()));
    assert_eq!(report["next"].as_array().map(Vec::len), Some(3));
}

#[test]
fn what_it_cannot_understand_is_told_with_what_to_do() {
    let directory = workplace();
    let file = |name: &str, content: &[u8]| fs::write(directory.path().join(name), content).expect("a file");
    file("picture.png", &[0x89, b'P', b'N', b'G', 0, 0xff]);
    file("empty.txt", b"");
    file("numbers.jsonl", b"{\"a\": 1}\n{\"a\": 2}\n");
    file("broken.jsonl", b"{\"a\": 1\n");
    file("broken.parquet", b"PAR1 and nothing else");
    fs::create_dir(directory.path().join("nothing")).expect("a directory");
    let told = |arguments: &[&str], words: &[&str]| {
        let said = failure(directory.path(), &[&["init"], arguments].concat());
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        assert!(!directory.path().join("millstream.toml").exists());
    };
    told(&["picture.png"], &["picture.png", "neither UTF-8 text nor"]);
    told(&["empty.txt"], &["empty.txt is empty", "name a file"]);
    told(&["numbers.jsonl"], &["numbers.jsonl", "no field with text"]);
    told(&["broken.jsonl"], &["broken.jsonl:1", "not JSON"]);
    told(&["broken.parquet"], &["broken.parquet", "not a readable Parquet file", "get the file again"]);
    file("whole.json", b"{\n  \"text\": \"a\"\n}\n");
    told(&["whole.json"], &["whole.json", "one JSON object per line", "jq"]);
    told(&["nothing"], &["nothing", "there is no text in this directory"]);
    // A directory without text names a file, and what is wrong with it.
    fs::write(directory.path().join("nothing/x.json"), b"{\n  \"text\": \"a\"\n}\n").expect("a file");
    told(&["nothing"], &["nothing/x.json", "one JSON object per line"]);
    file("open.csv", b"id,text\n1,\"a\n2,b\n");
    told(&["open.csv"], &["open.csv:2", "quote"]);
    file("latin.txt", b"caf\xe9\n");
    told(&["latin.txt"], &["latin.txt:1", "byte 0xe9 is not UTF-8"]);
    file("nothing.csv", b"id\n");
    told(&["nothing.csv"], &["nothing.csv", "no text in its first records"]);
    told(&["absent"], &["absent"]);
    told(&["-"], &["standard input"]);
    told(&["s3://bucket/a.txt"], &["s3://bucket/a.txt", "URL"]);
    told(&["empty.txt", "-o", "config.json"], &["config.json", ".toml"]);
    file("a.jsonl", &b"{\"a\": \"text\"}\n".repeat(9));
    told(&["a.jsonl", "--field", "b"], &["a.jsonl", "no text at \"b\"", "there are: a"]);
    told(&["a.jsonl", "--tokenizer", "absent.json"], &["absent.json"]);
}
