//! Conversations in files of several formats, and what small templates make of them.

#![allow(dead_code, reason = "no binary uses all of it")]

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder, StructBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Fields};
use millstream::config::{ChatConfig, Samples, SourceConfig, SourceKind, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Two templates, and what each writes around a turn.
pub(crate) const TEMPLATES: [Around; 2] = [
    Around { name: "bars", open: ["<|", "|>"], end: "<|end|>" },
    Around { name: "marks", open: ["\n### ", "\n"], end: "\n\n" },
];

/// What a template writes around a turn: the role between two texts, and an end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Around {
    name: &'static str,
    open: [&'static str; 2],
    end: &'static str,
}

/// A conversation: roles and contents.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chat(pub(crate) Vec<(&'static str, String)>);

impl Around {
    /// The template. The assistant's turns are learned from, with their ends.
    fn template(self) -> String {
        let Self { open: [before, behind], end, .. } = self;
        let text = |text: &str| format!("{{{{ {} }}}}", json!(text));
        let turn = format!("{{{{ message.content }}}}{}", text(end));
        format!(
            "{{%- for message in messages -%}}{}{{{{ message.role }}}}{}{{%- if message.role == 'assistant' -%}}\
             {{%- generation -%}}{turn}{{%- endgeneration -%}}{{%- else -%}}{turn}{{%- endif -%}}{{%- endfor -%}}",
            text(before),
            text(behind)
        )
    }

    /// Writes the template below `directory`, and returns the settings of a source that uses it.
    pub(crate) fn chat(self, directory: &Path) -> ChatConfig {
        let path = directory.join(format!("{}.jinja", self.name));
        fs::write(&path, self.template()).expect("a template");
        ChatConfig { template: Some(path), ..ChatConfig::default() }
    }

    /// What the template makes of a conversation.
    pub(crate) fn text(self, chat: &Chat) -> String {
        let Self { open: [before, behind], end, .. } = self;
        let turn = |(role, content): &(&str, String)| format!("{before}{role}{behind}{content}{end}");
        chat.0.iter().map(turn).collect()
    }
}

impl Chat {
    /// Whether an assistant says something, which is learned from.
    pub(crate) fn is_learned(&self) -> bool {
        !self.samples(Samples::Turns).is_empty()
    }

    /// Its samples, as conversations.
    pub(crate) fn samples(&self, samples: Samples) -> Vec<Self> {
        let turns = (1..=self.0.len()).filter(|end| self.0[end - 1].0 == "assistant");
        let turns: Vec<Self> = turns.map(|end| Self(self.0[..end].to_vec())).collect();
        match samples {
            Samples::Chat if !turns.is_empty() => vec![self.clone()],
            Samples::Chat | Samples::Turns => turns,
        }
    }

    pub(crate) fn record(&self) -> Value {
        let message = |(role, content): &(&str, String)| json!({ "role": role, "content": content });
        json!({ "messages": self.0.iter().map(message).collect::<Vec<_>>() })
    }
}

/// Both kinds of samples.
pub(crate) fn samples() -> impl Strategy<Value = Samples> {
    prop::sample::select(vec![Samples::Chat, Samples::Turns])
}

/// Conversations of up to six turns. In some of them nobody answers.
pub(crate) fn chats() -> impl Strategy<Value = Vec<Chat>> {
    let content = || "[a-zé€😀]{2,12}( [a-z]{1,9}){0,3}";
    let pair = (content(), content());
    let chat = (prop::option::of(content()), prop::collection::vec(pair, 1..7), prop::bool::weighted(0.2));
    let chat = chat.prop_map(|(system, pairs, is_unanswered)| {
        let system = system.map(|content| ("system", content));
        let turns = pairs.into_iter().flat_map(|(user, answer)| [("user", user), ("assistant", answer)]);
        let turns = turns.filter(|(role, _)| !is_unanswered || *role == "user");
        Chat(system.into_iter().chain(turns).collect())
    });
    prop::collection::vec(chat, 1..24)
}

/// The kinds of files that conversations are written to here.
pub(crate) const KINDS: [SourceKind; 7] = [
    SourceKind::Jsonl,
    SourceKind::Parquet,
    SourceKind::Arrow,
    SourceKind::Csv,
    SourceKind::Tsv,
    SourceKind::Tar,
    SourceKind::Mds,
];

/// Writes conversations below `directory`, and returns a source that reads them, without its template.
pub(crate) fn written(kind: SourceKind, directory: &Path, chats: &[Chat]) -> SourceConfig {
    let path = directory.join(format!("chats.{}", kind.extensions()[0]));
    fs::write(&path, bytes(kind, chats)).expect("a file");
    let paths = vec![path.display().to_string()];
    SourceConfig { kind, paths, task: Task::Chat, ..SourceConfig::default() }
}

/// A file of conversations.
pub(crate) fn bytes(kind: SourceKind, chats: &[Chat]) -> Vec<u8> {
    let records = chats.iter().map(Chat::record);
    match kind {
        SourceKind::Csv | SourceKind::Tsv => {
            let mark = if kind == SourceKind::Csv { ',' } else { '\t' };
            let row = |(number, record): (usize, Value)| {
                format!("{number}{mark}\"{}\"\n", record["messages"].to_string().replace('"', "\"\""))
            };
            let rows: String = records.enumerate().map(row).collect();
            format!("id{mark}messages\n{rows}").into_bytes()
        }
        SourceKind::Tar => {
            let mut archive = tar::Builder::new(Vec::new());
            for (number, record) in records.enumerate() {
                let mut add = |name: String, text: String| {
                    let mut header = tar::Header::new_gnu();
                    header.set_size(text.len() as u64);
                    archive.append_data(&mut header, name, text.as_bytes()).expect("a member");
                };
                add(format!("{number:04}.txt"), "not of the record".to_owned());
                // One way or the other.
                match number % 2 {
                    0 => add(format!("{number:04}.json"), record.to_string()),
                    _ => add(format!("{number:04}.messages.json"), record["messages"].to_string()),
                }
            }
            archive.into_inner().expect("an archive")
        }
        SourceKind::Mds => {
            let row = |record: Value| vec!["of nobody".to_owned(), record["messages"].to_string()];
            shard(&["text", "messages"], &["str", "json"], &records.map(row).collect::<Vec<_>>())
        }
        SourceKind::Parquet | SourceKind::Arrow => table(kind, &[("messages", messages(chats))]),
        _ => records.map(|record| format!("{record}\n")).collect::<String>().into_bytes(),
    }
}

/// A column of lists of structs.
fn messages(chats: &[Chat]) -> ArrayRef {
    let fields = ["role", "content", "name"].map(|name| Field::new(name, DataType::Utf8, true));
    let mut lists = ListBuilder::new(StructBuilder::from_fields(Fields::from(fields.to_vec()), 0));
    for chat in chats {
        for (role, content) in &chat.0 {
            let message = lists.values();
            for (nth, value) in [Some(*role), Some(content), None].into_iter().enumerate() {
                message.field_builder::<StringBuilder>(nth).expect("text").append_option(value);
            }
            message.append(true);
        }
        lists.append(true);
    }
    Arc::new(lists.finish())
}

/// A table in columns.
pub(crate) fn table(kind: SourceKind, columns: &[(&str, ArrayRef)]) -> Vec<u8> {
    let columns = columns.iter().map(|(name, column)| (*name, column.clone(), true));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("a batch");
    with_schema(kind, &batch)
}

/// A batch as a file.
pub(crate) fn with_schema(kind: SourceKind, batch: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    if kind == SourceKind::Parquet {
        let mut writer =
            parquet::arrow::ArrowWriter::try_new(&mut bytes, batch.schema(), None).expect("a writer");
        writer.write(batch).expect("written");
        writer.close().expect("written");
    } else {
        let schema = batch.schema();
        let mut writer = arrow_ipc::writer::StreamWriter::try_new(&mut bytes, &schema).expect("a writer");
        writer.write(batch).expect("written");
        writer.finish().expect("written");
    }
    bytes
}

/// A shard of MosaicML's, of columns with these names and encodings.
pub(crate) fn shard(names: &[&str], encodings: &[&str], rows: &[Vec<impl AsRef<[u8]>>]) -> Vec<u8> {
    let sizes = vec![Value::Null; names.len()];
    let about =
        json!({ "column_names": names, "column_encodings": encodings, "column_sizes": sizes }).to_string();
    let mut offset = 4 * (rows.len() + 2) + about.len();
    let mut bytes = vec![rows.len() as u32, offset as u32];
    for row in rows {
        offset += row.iter().map(|cell| 4 + cell.as_ref().len()).sum::<usize>();
        bytes.push(offset as u32);
    }
    let mut bytes: Vec<u8> = bytes.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(about.bytes());
    for row in rows {
        row.iter().for_each(|cell| bytes.extend((cell.as_ref().len() as u32).to_le_bytes()));
        row.iter().for_each(|cell| bytes.extend(cell.as_ref()));
    }
    bytes
}
