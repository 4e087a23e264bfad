//! From counters to who is at fault, and from there to a sentence.
//!
//! The loader knows what the task behind `prefetch` did while the consumer waited ([`Waits`](super::Waits)); the longest of
//! these names a stage, and the stage's own counters say why it is slow. What would help is only said where it can.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::snapshot::{Meters, share};
use super::words;

/// Below this share of its time the trainer does not wait.
const NEVER: f64 = 0.001;

/// Below this share it is not worth a remedy.
const HARDLY: f64 = 0.01;

/// From this share of their time on, workers are all at work.
pub(super) const FULL: f64 = 0.8;

/// From this share of the batches on that were taken from a full queue, the pipeline keeps up on the whole.
const UNEVEN: f64 = 0.25;

/// Who keeps the trainer waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The source reads and decodes.
    Source,
    /// The source waits for a store.
    Store,
    /// The source waits for memory.
    Memory,
    /// A stage of one's own.
    Own,
    /// The tokenizer, all of whose workers are busy.
    Tokenize,
    /// Single documents that are long: few workers have any.
    LongDocuments,
    /// The token cache is slow to take what was tokenized.
    Cache,
    /// The task that makes batches is busy, mostly with shuffling.
    Shuffle,
    /// The same, with packing.
    Pack,
    /// The same, with copying rows into batches.
    Batch,
    /// The same, with handing documents from stage to stage.
    Documents,
    /// The task that makes batches had no thread to run on.
    Runtime,
    /// Batches come unevenly: the queue is full at times, and empty at others.
    Depth,
}

impl Fault {
    /// Who is at fault, supposing that somebody is.
    pub(super) fn of(meters: &Meters) -> Self {
        let waits = &meters.waits;
        let longest = waits.by_cause().into_iter().max_by(|(_, a), (_, b)| a.total_cmp(b));
        match longest.map_or("work", |(cause, _)| cause) {
            "source" => match waits_for_store(meters) {
                true => Self::Store,
                false => Self::Source,
            },
            "memory" => Self::Memory,
            "own" => Self::Own,
            "tokenize" => Self::of_tokenize(meters),
            "cache" => Self::Cache,
            _ if meters.setting.is_one_thread => Self::Runtime,
            _ => Self::of_work(meters),
        }
    }

    /// Why tokenizing is slow.
    fn of_tokenize(meters: &Meters) -> Self {
        let is_long = |bytes: u64, documents: u64| documents > 0 && bytes / documents > LONG_DOCUMENT;
        match meters.stage("tokenize") {
            Some(stage)
                if workers_share(meters, "tokenize") < FULL && is_long(stage.bytes, stage.documents) =>
            {
                Self::LongDocuments
            }
            _ => Self::Tokenize,
        }
    }

    /// What the task that makes batches spends most of its time on.
    fn of_work(meters: &Meters) -> Self {
        let busy = |name: &str| meters.stage(name).map_or(0.0, |stage| stage.busy_seconds);
        let documents = if meters.setting.has_own_documents { busy("source") } else { 0.0 };
        let parts = [
            (Self::Source, documents),
            (Self::Own, busy("own")),
            (Self::Shuffle, busy("shuffle")),
            (Self::Pack, busy("pack")),
            (Self::Batch, busy("batch")),
        ];
        let rest = busy("prefetch") - parts.iter().map(|(_, seconds)| seconds).sum::<f64>();
        let parts = parts.into_iter().chain([(Self::Documents, rest)]);
        parts.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(Self::Documents, |(fault, _)| fault)
    }

    /// The stage that it stands in.
    pub fn stage(self) -> &'static str {
        match self {
            Self::Source | Self::Store | Self::Memory => "source",
            Self::Own => "own",
            Self::Tokenize | Self::LongDocuments | Self::Cache => "tokenize",
            Self::Shuffle => "shuffle",
            Self::Pack => "pack",
            Self::Batch => "batch",
            Self::Documents | Self::Runtime | Self::Depth => "prefetch",
        }
    }
}

/// A group of documents is about as long: one that is longer is a worker's whole job.
const LONG_DOCUMENT: u64 = 128 << 10;

/// The share of the workers of a stage that was busy, from 0 to 1.
pub(super) fn workers_share(meters: &Meters, stage: &str) -> f64 {
    let stage = meters.stage(stage);
    stage.map_or(0.0, |stage| share(stage.busy_seconds, meters.wall_seconds * stage.workers as f64))
}

/// Whether most of the source's work was waiting for remote files.
fn waits_for_store(meters: &Meters) -> bool {
    let busy = meters.stage("source").map_or(0.0, |stage| stage.busy_seconds);
    meters.store.is_some_and(|store| store.wait_seconds > 0.5 * busy)
}

/// What the trainer waits for, and what would help. It prints as one sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The share of its time that the trainer waits, from 0 to 1.
    pub wait_share: f64,
    /// Who is at fault; none if it does not wait.
    pub fault: Option<Fault>,
    /// The stage at fault.
    pub stage: Option<String>,
    /// What was found.
    pub finding: String,
    /// What would help, if a setting would.
    pub remedy: Option<String>,
    /// All of it in one sentence.
    pub sentence: String,
}

impl Verdict {
    /// The verdict on `meters`, by a trainer that says itself which share of its time it waited.
    pub fn of(meters: &Meters, wait_share: f64) -> Self {
        if meters.batches == 0 {
            return Self::before_the_first(meters);
        }
        let waits = words::percent(wait_share);
        if wait_share < NEVER {
            let finding = "the model is the bottleneck".to_owned();
            let sentence = format!("the trainer never waits ({waits}): {finding}");
            return Self { wait_share, fault: None, stage: None, finding, remedy: None, sentence };
        }
        let fault = Fault::of(meters);
        let is_uneven = share(meters.batches_of_full as f64, meters.batches as f64) >= UNEVEN;
        let (fault, cause) = if is_uneven { (Fault::Depth, Some(fault)) } else { (fault, None) };
        let stage = Some(fault.stage().to_owned());
        if wait_share < HARDLY {
            let stage_waited_for = cause.unwrap_or(fault).stage();
            let finding = "the model is the bottleneck".to_owned();
            let sentence =
                format!("the trainer waits {waits} of the time, mostly for {stage_waited_for}: {finding}");
            return Self { wait_share, fault: Some(fault), stage, finding, remedy: None, sentence };
        }
        let finding = words::finding(fault, cause, meters);
        let remedy = words::remedy(fault, meters);
        let sentence =
            words::sentence(&format!("the trainer waits {waits} of the time"), &finding, remedy.as_deref());
        Self { wait_share, fault: Some(fault), stage, finding, remedy, sentence }
    }

    /// No batch has come yet.
    fn before_the_first(meters: &Meters) -> Self {
        let is_awaited = meters.waits.by_cause().iter().any(|(_, seconds)| *seconds > 0.0);
        let fault = is_awaited.then(|| Fault::of(meters));
        let finding = fault.map(|fault| words::finding(fault, None, meters));
        let finding = finding.unwrap_or_else(|| "nobody has asked for one".to_owned());
        let sentence = format!("no batch yet after {:.1} s: {finding}", meters.wall_seconds);
        let stage = fault.map(|fault| fault.stage().to_owned());
        Self { wait_share: 0.0, fault, stage, finding, remedy: None, sentence }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Setting, StageMeter, StoreMeter, Waits};

    /// Ten seconds, of which the trainer waited 1.2; two workers, four cores.
    fn meters(waits: Waits) -> Meters {
        let stage = |stage| StageMeter { stage, ..StageMeter::default() };
        let tokenize =
            StageMeter { documents: 10, bytes: 10_000, workers: 2, busy_seconds: 19.0, ..stage("tokenize") };
        let source = StageMeter { workers: 2, busy_seconds: 2.0, ..stage("source") };
        let prefetch = StageMeter { busy_seconds: 8.0, capacity: 4, ..stage("prefetch") };
        let task = [("shuffle", 1.0), ("pack", 1.5), ("batch", 1.0)];
        let task = task.map(|(name, busy_seconds)| StageMeter { busy_seconds, ..stage(name) });
        let stages = [&[source, tokenize][..], &task[..], &[prefetch][..]].concat();
        Meters {
            wall_seconds: 10.0,
            consumed_seconds: 10.0,
            consumer_wait_seconds: 1.2,
            wait_share: 0.12,
            waits,
            batches: 100,
            bytes_in_flight: 500 << 20,
            budget_bytes: 512 << 20,
            setting: Setting { cores: 4, lanes: 2, window: 64, can_keep_tokens: true, ..Setting::default() },
            stages,
            ..Meters::default()
        }
    }

    fn source() -> Meters {
        meters(Waits { source: 1.0, tokenize: 0.2, ..Waits::default() })
    }

    fn tokenize() -> Meters {
        meters(Waits { tokenize: 1.0, source: 0.2, ..Waits::default() })
    }

    fn work() -> Meters {
        meters(Waits { work: 1.0, tokenize: 0.2, ..Waits::default() })
    }

    fn with(mut meters: Meters, change: impl FnOnce(&mut Meters)) -> Meters {
        change(&mut meters);
        meters
    }

    fn stage<'a>(meters: &'a mut Meters, name: &str) -> &'a mut StageMeter {
        meters.stages.iter_mut().find(|stage| stage.stage == name).expect("a stage")
    }

    fn store(requests: u64) -> Meters {
        with(source(), |m| {
            let store = StoreMeter {
                concurrency: 64,
                waits: 10,
                wait_seconds: 1.5,
                requests_at_waits: 10 * requests,
                requests: 0,
            };
            m.store = Some(store);
        })
    }

    fn own(waits: Waits) -> Meters {
        with(meters(waits), |m| {
            m.setting.own_stages = vec!["long".to_owned()];
            m.stages.insert(1, StageMeter { stage: "own", busy_seconds: 6.0, ..StageMeter::default() });
        })
    }

    #[test]
    fn every_fault_has_its_stage_its_words_and_its_remedy() {
        let own_waits = Waits { own: 1.0, ..Waits::default() };
        let own_works = Waits { work: 1.0, ..Waits::default() };
        let table = [
            (tokenize(), Fault::Tokenize, "tokenize is full on 2 of 2 workers; add workers or a token cache"),
            (
                with(tokenize(), |m| m.setting.cores = 2),
                Fault::Tokenize,
                "tokenize is full on 2 of 2 workers; add a token cache",
            ),
            (
                with(tokenize(), |m| m.setting.can_keep_tokens = false),
                Fault::Tokenize,
                "tokenize is full on 2 of 2 workers; add workers",
            ),
            (
                with(tokenize(), |m| (m.setting.cores, m.setting.can_keep_tokens) = (2, false)),
                Fault::Tokenize,
                "tokenize is full on 2 of 2 workers",
            ),
            (
                with(tokenize(), |m| stage(m, "tokenize").busy_seconds = 11.0),
                Fault::Tokenize,
                "tokenize has 1.1 of 2 workers busy; add a token cache",
            ),
            (
                with(tokenize(), |m| {
                    stage(m, "tokenize").busy_seconds = 11.0;
                    stage(m, "tokenize").bytes = 10 << 20;
                }),
                Fault::LongDocuments,
                "tokenize has 1.1 of 2 workers busy: documents are long, 1.0 MiB on average, and each is one worker's; \
                 cut them into several documents",
            ),
            (
                source(),
                Fault::Source,
                "source reads and decodes, on 0.2 of 2 lanes at once; prepare token shards",
            ),
            (
                with(source(), |m| stage(m, "source").busy_seconds = 18.0),
                Fault::Source,
                "source reads and decodes, on 1.8 of 2 lanes at once; add lanes, which are part of the order, or prepare \
                 token shards",
            ),
            (
                with(source(), |m| {
                    stage(m, "source").busy_seconds = 18.0;
                    m.setting.can_keep_tokens = false;
                }),
                Fault::Source,
                "source reads and decodes, on 1.8 of 2 lanes at once; add lanes, which are part of the order",
            ),
            (
                with(source(), |m| {
                    stage(m, "source").busy_seconds = 18.0;
                    (m.setting.cores, m.setting.can_keep_tokens) = (2, false);
                }),
                Fault::Source,
                "source reads and decodes, on 1.8 of 2 lanes at once",
            ),
            (
                with(source(), |m| (m.setting.has_own_documents, m.setting.can_keep_tokens) = (true, false)),
                Fault::Source,
                "the documents of one's own come slowly",
            ),
            (
                store(64),
                Fault::Store,
                "source waits for the store, 64 of 64 requests under way; raise store.concurrency",
            ),
            (
                store(9),
                Fault::Store,
                "source waits for the store, 9 of 64 requests under way; raise pipeline.memory, so that more is asked for \
                 ahead, or keep it with store.cache",
            ),
            (
                with(store(9), |m| m.setting.has_store_cache = true),
                Fault::Store,
                "source waits for the store, 9 of 64 requests under way; raise pipeline.memory, so that more is asked for \
                 ahead",
            ),
            (
                meters(Waits { memory: 1.0, ..Waits::default() }),
                Fault::Memory,
                "the memory budget is full (500.0 MiB of 512.0 MiB); raise pipeline.memory or lower pipeline.window",
            ),
            (
                with(meters(Waits { memory: 1.0, ..Waits::default() }), |m| m.setting.window = 1),
                Fault::Memory,
                "the memory budget is full (500.0 MiB of 512.0 MiB); raise pipeline.memory",
            ),
            (
                own(own_waits),
                Fault::Own,
                "the stage \"long\" of one's own is slow; let it await several documents at once",
            ),
            (
                own(own_works),
                Fault::Own,
                "the stage \"long\" of one's own is slow; do its work on threads of its own, several documents at once",
            ),
            (
                with(own(own_works), |m| m.setting.own_stages.push("clean".to_owned())),
                Fault::Own,
                "the stages \"long\", \"clean\" of one's own are slow; do its work on threads of its own, several \
                 documents at once",
            ),
            (
                meters(Waits { cache: 1.0, ..Waits::default() }),
                Fault::Cache,
                "tokenize waits for the token cache, which is written too slowly; put source.cache on a faster disk, or \
                 leave it out",
            ),
            (
                work(),
                Fault::Documents,
                "the task behind prefetch is busy, mostly with handing on documents, of 1000 B on average; longer \
                 documents take fewer steps, and several ranks have a task each",
            ),
            (
                with(work(), |m| stage(m, "shuffle").busy_seconds = 5.0),
                Fault::Shuffle,
                "the task behind prefetch is busy, mostly with shuffle; several ranks have a task each",
            ),
            (
                with(work(), |m| stage(m, "pack").busy_seconds = 5.0),
                Fault::Pack,
                "the task behind prefetch is busy, mostly with pack; several ranks have a task each",
            ),
            (
                with(work(), |m| {
                    stage(m, "pack").busy_seconds = 5.0;
                    m.setting.is_best_fit = true;
                }),
                Fault::Pack,
                "the task behind prefetch is busy, mostly with pack; lower pipeline.pack_window",
            ),
            (
                with(work(), |m| stage(m, "batch").busy_seconds = 5.0),
                Fault::Batch,
                "the task behind prefetch is busy, mostly with batch; several ranks have a task each",
            ),
            (
                with(work(), |m| m.setting.is_one_thread = true),
                Fault::Runtime,
                "the runtime has one thread, so that batches are made only while they are awaited; open the loader on a \
                 multi-thread runtime",
            ),
            (
                with(tokenize(), |m| m.batches_of_full = 40),
                Fault::Depth,
                "batches come unevenly, and 40% of them when all 4 places of the queue were taken; what is missing at \
                 times is tokenize; raise pipeline.depth",
            ),
        ];
        for (meters, fault, words) in table {
            let verdict = meters.verdict();
            assert_eq!(verdict.sentence, format!("the trainer waits 12% of the time: {words}"));
            assert_eq!(verdict.fault, Some(fault), "{words}");
            assert_eq!(verdict.stage.as_deref(), Some(fault.stage()), "{words}");
            let (finding, remedy) = (verdict.finding.clone(), verdict.remedy.clone());
            assert!(words.starts_with(&finding) && words.ends_with(&remedy.unwrap_or(finding)), "{words}");
            assert_eq!(verdict.to_string(), verdict.sentence);
            let json = serde_json::to_string(&verdict).expect("it serializes");
            assert_eq!(serde_json::from_str::<Verdict>(&json).expect("it deserializes"), verdict);
        }
    }

    #[test]
    fn who_hardly_waits_needs_no_remedy() {
        let says = |share: f64| Verdict::of(&tokenize(), share);
        assert_eq!(says(0.0004).sentence, "the trainer never waits (0.04%): the model is the bottleneck");
        assert_eq!((says(0.0).fault, says(0.0).stage), (None, None));
        let some = says(0.004);
        assert_eq!(
            some.sentence,
            "the trainer waits 0.40% of the time, mostly for tokenize: the model is the bottleneck"
        );
        assert_eq!((some.fault, some.remedy), (Some(Fault::Tokenize), None));
        assert!(says(0.034).sentence.starts_with("the trainer waits 3.4% of the time: tokenize is full"));
        assert!(says(0.0996).sentence.starts_with("the trainer waits 10% of the time: "));
        assert!(says(1.0).sentence.starts_with("the trainer waits 100% of the time: "));
    }

    #[test]
    fn before_the_first_batch_it_says_what_is_missing() {
        let verdict = with(store(64), |m| m.batches = 0).verdict();
        let expected = "no batch yet after 10.0 s: source waits for the store, 64 of 64 requests under way";
        assert_eq!(verdict.sentence, expected);
    }
}
