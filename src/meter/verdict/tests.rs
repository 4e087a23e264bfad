//! What the verdict says for which counters.

use super::*;
use crate::meter::{Setting, StageMeter, StoreMeter, Waits};

/// Ten seconds, of which the trainer waited 1.2; two workers, four cores.
fn meters(waits: Waits) -> Meters {
    let stage = |stage: &'static str| StageMeter { stage: stage.into(), ..StageMeter::default() };
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
        fullest_bytes_in_flight: 500 << 20,
        fullest_budget_bytes: 512 << 20,
        setting: Setting {
            cores: 4,
            lanes: 2,
            splits: 100,
            window: 64,
            can_keep_tokens: true,
            ..Setting::default()
        },
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
        let custom = |stage: &'static str, busy_seconds, awaited_seconds| StageMeter {
            stage: stage.into(),
            is_custom: true,
            busy_seconds,
            awaited_seconds,
            ..StageMeter::default()
        };
        m.stages.insert(1, custom("works long", 5.0, 1.0));
        m.stages.insert(3, custom("awaited long", 1.0, 5.0));
    })
}

/// A change of the counters, and what the verdict then says.
type Case<'a> = (fn(&mut Meters), &'a str);

/// Checks what is said of each of these changes of some counters.
fn said(of: &Meters, fault: Fault, cases: &[Case<'_>]) {
    for (change, words) in cases {
        let mut meters = of.clone();
        change(&mut meters);
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
fn a_tokenizer_at_fault_is_full_or_has_long_documents() {
    let full = "tokenize is full on 2 of 2 workers; add workers or a token cache";
    let cases: &[Case<'_>] = &[
        (|_| {}, full),
        // The pipeline stood still for less time than the trainer waited, or for one long pause.
        (|m| (m.batches_of_full, stage(m, "prefetch").wait_out_seconds) = (40, 1.1), full),
        (|m| (m.batches_of_full, stage(m, "prefetch").wait_out_seconds) = (20, 8.0), full),
        // Waits before the first batch are not counted here.
        (|m| (m.first_wait_seconds, m.first_waits.source) = (4.4, 4.4), full),
        (|m| m.setting.cores = 2, "tokenize is full on 2 of 2 workers; add a token cache"),
        (|m| m.setting.can_keep_tokens = false, "tokenize is full on 2 of 2 workers; add workers"),
        (|m| (m.setting.cores, m.setting.can_keep_tokens) = (2, false), "tokenize is full on 2 of 2 workers"),
        (
            |m| stage(m, "tokenize").busy_seconds = 11.0,
            "tokenize has 1.1 of 2 workers busy; add a token cache",
        ),
        // Some workers were taken away meanwhile.
        (
            |m| (stage(m, "tokenize").workers, stage(m, "tokenize").busy_seconds) = (1, 21.0),
            "tokenize has 2.1 of 3 workers busy; add a token cache",
        ),
    ];
    said(&tokenize(), Fault::Tokenize, cases);
    let long = "tokenize has 1.1 of 2 workers busy: documents are long, 1.0 MiB on average, and each is one worker's; \
                cut them into several documents";
    let change: fn(&mut Meters) =
        |m| (stage(m, "tokenize").busy_seconds, stage(m, "tokenize").bytes) = (11.0, 10 << 20);
    said(&tokenize(), Fault::LongDocuments, &[(change, long)]);
    let uneven = "batches come unevenly: 40% of them came from a full queue of 4, and at other times the trainer waits for \
                  tokenize; raise pipeline.depth";
    let change: fn(&mut Meters) = |m| (m.batches_of_full, stage(m, "prefetch").wait_out_seconds) = (40, 1.3);
    said(&tokenize(), Fault::Depth, &[(change, uneven)]);
}

#[test]
fn a_source_at_fault_reads_or_waits_for_a_store() {
    let busy = |m: &mut Meters| stage(m, "source").busy_seconds = 18.0;
    let cases: &[Case<'_>] = &[
        (|_| {}, "source reads and decodes, on 0.2 of 2 lanes at once; prepare token shards"),
        (
            |m| (m.setting.has_own_documents, m.setting.can_keep_tokens) = (true, false),
            "the custom documents come slowly",
        ),
    ];
    said(&source(), Fault::Source, cases);
    let alone = "source reads and decodes, on 1.8 of 2 lanes at once";
    let cases: &[Case<'_>] = &[
        (
            |_| {},
            "source reads and decodes, on 1.8 of 2 lanes at once; add lanes, which changes the order, or prepare token \
             shards",
        ),
        (
            |m| m.setting.can_keep_tokens = false,
            "source reads and decodes, on 1.8 of 2 lanes at once; add lanes, which changes the order",
        ),
        (|m| (m.setting.cores, m.setting.can_keep_tokens) = (2, false), alone),
        (|m| (m.setting.splits, m.setting.can_keep_tokens) = (2, false), alone),
    ];
    said(&with(source(), busy), Fault::Source, cases);
    let cases: &[Case<'_>] =
        &[(|_| {}, "source waits for the store, 64 of 64 requests under way; raise store.concurrency")];
    said(&store(64), Fault::Store, cases);
    let cases: &[Case<'_>] = &[
        (
            |_| {},
            "source waits for the store, 9 of 64 requests under way; raise pipeline.memory, so that more is asked for \
             ahead, or keep it with store.cache",
        ),
        (
            |m| m.setting.has_store_cache = true,
            "source waits for the store, 9 of 64 requests under way; raise pipeline.memory, so that more is asked for \
             ahead",
        ),
    ];
    said(&store(9), Fault::Store, cases);
    // On two cores, the workers keep the source from having one.
    let crowded = "tokenize has 7.0 of 64 workers busy, and all 2 cores are at work; set pipeline.workers to \"auto\", which \
                   takes no more workers than cores";
    let change: fn(&mut Meters) = |m| {
        (m.setting.cores, m.batches) = (2, 5);
        (stage(m, "tokenize").workers, stage(m, "tokenize").busy_seconds) = (64, 70.0);
    };
    said(&source(), Fault::Tokenize, &[(change, crowded)]);
}

#[test]
fn memory_custom_stages_and_the_cache_are_at_fault() {
    let cases: &[Case<'_>] = &[
        (
            |_| {},
            "the memory budget is full (500.0 MiB of 512.0 MiB); raise pipeline.memory or lower pipeline.window",
        ),
        (
            |m| m.setting.window = 1,
            "the memory budget is full (500.0 MiB of 512.0 MiB); raise pipeline.memory",
        ),
        (
            |m| (m.fullest_bytes_in_flight, m.fullest_budget_bytes) = (60 << 20, 64 << 20),
            "a share of the memory budget is full (60.0 MiB of 64.0 MiB); raise pipeline.memory or lower \
             pipeline.window",
        ),
    ];
    said(&meters(Waits { memory: 1.0, ..Waits::default() }), Fault::Memory, cases);
    let awaited =
        "custom stage \"awaited long\" is slow; make it faster, or let it await several items at once";
    said(&own(Waits { own: 1.0, ..Waits::default() }), Fault::Own, &[(|_| {}, awaited)]);
    let works = "custom stage \"works long\" is slow; do its work on other threads, several items at once";
    said(&own(Waits { work: 1.0, ..Waits::default() }), Fault::Own, &[(|_| {}, works)]);
    let cache = "tokenize waits for the token cache, which is written too slowly; put source.cache on a faster disk, or \
                 leave it out";
    said(&meters(Waits { cache: 1.0, ..Waits::default() }), Fault::Cache, &[(|_| {}, cache)]);
}

#[test]
fn the_tasks_at_fault_are_busy_or_have_no_core() {
    let cases: &[Case<'_>] = &[
        (
            |_| {},
            "the tasks behind prefetch are busy, mostly with handing on documents, of 1000 B on average; longer \
             documents take fewer steps",
        ),
        (
            |m| (m.setting.cores, stage(m, "tokenize").busy_seconds) = (1, 3.0),
            "the tasks behind prefetch are busy, mostly with handing on documents, of 1000 B on average, and the only core \
             is at work; longer documents take fewer steps",
        ),
    ];
    said(&work(), Fault::Documents, cases);
    let shuffle =
        "the tasks behind prefetch are busy, mostly with shuffle; add lanes, which changes the order";
    let change: fn(&mut Meters) = |m| stage(m, "shuffle").busy_seconds = 5.0;
    said(&work(), Fault::Shuffle, &[(change, shuffle)]);
    let cases: &[Case<'_>] = &[
        (|_| {}, "the tasks behind prefetch are busy, mostly with pack; add lanes, which changes the order"),
        (
            |m| m.setting.is_best_fit = true,
            "the tasks behind prefetch are busy, mostly with pack; lower pipeline.pack_window",
        ),
    ];
    said(&with(work(), |m| stage(m, "pack").busy_seconds = 5.0), Fault::Pack, cases);
    let cases: &[Case<'_>] = &[
        (|_| {}, "the tasks behind prefetch are busy, mostly with batch; add lanes, which changes the order"),
        (|m| m.setting.splits = 2, "the tasks behind prefetch are busy, mostly with batch"),
    ];
    said(&with(work(), |m| stage(m, "batch").busy_seconds = 5.0), Fault::Batch, cases);
    // Two cores for two workers and the tasks: these have to wait for a core.
    let cases: &[Case<'_>] = &[
        (|m| m.setting.cores = 2, "tokenize is full on 2 of 2 workers; add a token cache"),
        (
            |m| (m.setting.cores, stage(m, "tokenize").busy_seconds) = (2, 14.0),
            "tokenize has 1.4 of 2 workers busy, and all 2 cores are at work; add a token cache",
        ),
    ];
    said(&work(), Fault::Tokenize, cases);
    let runtime = "the runtime has one thread, so that batches are made only while they are awaited; open the loader on a \
                   multi-thread runtime";
    said(&work(), Fault::Runtime, &[(|m| m.setting.is_one_thread = true, runtime)]);
}

#[test]
fn who_hardly_waits_needs_no_remedy() {
    let says = |share: f64| Verdict::from_meters(&tokenize(), share);
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
    let late =
        with(meters(Waits::default()), |m| (m.first_wait_seconds, m.consumer_wait_seconds) = (0.7, 0.1));
    let start = Verdict::from_meters(&late, 0.08);
    let expected = "the trainer waits 8.0% of the time: most of it, 700 ms, for the first batch";
    assert_eq!((start.sentence.as_str(), start.fault, start.remedy), (expected, Some(Fault::Start), None));
}

#[test]
fn before_the_first_batch_it_says_what_is_missing() {
    let verdict = with(store(64), |m| m.batches = 0).verdict();
    let expected = "no batch yet after 10.0 s: source waits for the store, 64 of 64 requests under way";
    assert_eq!(verdict.sentence, expected);
}

#[test]
fn of_one_batch_nothing_is_said() {
    let one = |first_wait: f64, waited: f64| {
        with(tokenize(), |m| {
            (m.batches, m.first_wait_seconds, m.consumer_wait_seconds) = (1, first_wait, waited);
            (m.wait_share, m.consumed_seconds) = (0.1 * waited, 10.0);
        })
    };
    let unknown = "one batch is too few to tell what the trainer waits for";
    assert_eq!(one(0.5, 0.0).verdict().sentence, unknown, "nothing but the first was waited for");
    assert_eq!(one(0.0, 1.2).verdict().sentence, unknown);
    assert_eq!(one(0.0, 1.2).verdict().fault, None);
    let few = |batches: u64, seconds: f64| {
        let few = with(one(0.5, 0.0), |m| (m.batches, m.consumed_seconds) = (batches, seconds));
        few.verdict().sentence
    };
    assert_eq!(few(5, 0.001), "5 batches are too few to tell what the trainer waits for", "they were ready");
    assert!(few(6, 0.001).starts_with("the trainer never waits"), "the queue holds four");
    assert!(few(5, 0.5).starts_with("the trainer never waits"), "it took its time");
    // Between two snapshots of a run, it was not the first batch.
    assert!(one(0.0, 0.0).verdict().sentence.starts_with("the trainer never waits"));
}

#[test]
fn a_stream_that_has_ended_without_a_batch_misses_nothing() {
    let verdict = with(store(64), |m| (m.batches, m.has_ended) = (0, true)).verdict();
    assert_eq!((verdict.sentence.as_str(), verdict.fault), ("the stream ended before a batch came", None));
}
