//! The words of a verdict: the finding at a stage, and the remedy.

use bytesize::ByteSize;

use super::fault::{FULL, Fault, are_cores_busy, workers_share};
use super::snapshot::{Meters, StageMeter};

/// Formats a share for people: two digits are enough.
pub(super) fn percent(share: f64) -> String {
    match share * 100.0 {
        whole if whole >= 9.95 => format!("{whole:.0}%"),
        tenths if tenths >= 0.995 => format!("{tenths:.1}%"),
        hundredths => format!("{hundredths:.2}%"),
    }
}

/// Formats a time for people.
fn time(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1e3) } else { format!("{seconds:.1} s") }
}

/// Joins how long the trainer waits, why, and the remedy.
pub(super) fn sentence(waits: &str, finding: &str, remedy: Option<&str>) -> String {
    match remedy {
        Some(remedy) => format!("{waits}: {finding}; {remedy}"),
        None => format!("{waits}: {finding}"),
    }
}

/// Describes the problem at the stage at fault. `cause` is the cause of an uneven pipeline's waits.
pub(super) fn finding(fault: Fault, cause: Option<Fault>, meters: &Meters) -> String {
    let stage = |name: &str| meters.stage(name).cloned().unwrap_or_default();
    let cores = match (are_cores_busy(meters), meters.setting.cores) {
        (true, 1) => ", and the only core is at work".to_owned(),
        (true, cores) => format!(", and all {cores} cores are at work"),
        (false, _) => String::new(),
    };
    let work = |part: &str| format!("the tasks behind prefetch are busy, mostly with {part}{cores}");
    match fault {
        Fault::Source if meters.setting.has_own_documents => "the custom documents come slowly".to_owned(),
        Fault::Source => {
            let (threads, lanes) = (busy(meters, "source"), workers(meters, "source"));
            format!("source reads and decodes, on {threads} of {lanes} lanes at once")
        }
        Fault::Store => {
            let store = meters.store.unwrap_or_default();
            let requests = requests(meters);
            format!("source waits for the store, {requests} of {} requests under way", store.concurrency)
        }
        Fault::Memory => {
            let (used, share) = (meters.fullest_bytes_in_flight, meters.fullest_budget_bytes);
            let whose = if share < meters.budget_bytes { "a share of the memory" } else { "the memory" };
            format!("{whose} budget is full ({} of {})", ByteSize(used), ByteSize(share))
        }
        Fault::Own => {
            let time = |stage: &&StageMeter| match awaits(meters) {
                true => stage.awaited_seconds,
                false => stage.busy_seconds,
            };
            let slowest = meters.custom().max_by(|a, b| time(a).total_cmp(&time(b)));
            match slowest {
                Some(stage) => format!("custom stage {:?} is slow", stage.stage),
                None => "a custom stage is slow".to_owned(),
            }
        }
        Fault::Tokenize => {
            let workers = workers(meters, "tokenize");
            match workers_share(meters, "tokenize") {
                full if full >= FULL => format!("tokenize is full on {workers} of {workers} workers"),
                _ => format!("tokenize has {} of {workers} workers busy{cores}", busy(meters, "tokenize")),
            }
        }
        Fault::LongDocuments => {
            let tokenize = stage("tokenize");
            let mean = ByteSize(tokenize.bytes / tokenize.documents.max(1));
            let (busy, workers) = (busy(meters, "tokenize"), workers(meters, "tokenize"));
            format!(
                "tokenize has {busy} of {workers} workers busy: documents are long, {mean} on average, and each is \
                 one worker's"
            )
        }
        Fault::Cache => "tokenize waits for the token cache, which is written too slowly".to_owned(),
        Fault::Start => format!("most of it, {}, for the first batch", time(meters.first_wait_seconds)),
        Fault::Shuffle => work("shuffle"),
        Fault::Pack => work("pack"),
        Fault::Batch => work("batch"),
        Fault::Documents => {
            let tokenize = stage("tokenize");
            let mean = ByteSize(tokenize.bytes / tokenize.documents.max(1));
            work(&format!("handing on documents, of {mean} on average"))
        }
        Fault::Runtime => {
            "the runtime has one thread, so that batches are made only while they are awaited".to_owned()
        }
        Fault::Depth => {
            let prefetch = stage("prefetch");
            let full = percent(meters.batches_of_full as f64 / meters.batches.max(1) as f64);
            let cause = cause.map_or("tokenize", Fault::stage);
            format!(
                "batches come unevenly: {full} of them came from a full queue of {}, and at other times the trainer \
                 waits for {cause}",
                prefetch.capacity
            )
        }
    }
}

/// Whether custom stages are mostly waited for, and not at work themselves.
fn awaits(meters: &Meters) -> bool {
    meters.waits.own >= meters.waits.work
}

/// The remedy; nothing if no setting can help.
pub(super) fn remedy(fault: Fault, meters: &Meters) -> Option<String> {
    let setting = &meters.setting;
    // Each lane needs a split.
    let has_room_for_lanes = setting.lanes < setting.cores.min(setting.splits);
    let remedy = match fault {
        Fault::Source => {
            // More lanes help only if all of them are reading already.
            let all_read = workers_share(meters, "source") >= FULL && !setting.has_own_documents;
            match (all_read && has_room_for_lanes, setting.can_keep_tokens) {
                (true, true) => "add lanes, which changes the order, or prepare token shards",
                (true, false) => "add lanes, which changes the order",
                (false, true) => "prepare token shards",
                (false, false) => return None,
            }
        }
        Fault::Store => {
            let concurrency = meters.store.map_or(0, |store| store.concurrency);
            match (requests(meters) * 10 >= 9 * concurrency, setting.has_store_cache) {
                (true, _) => "raise store.concurrency",
                (false, false) => {
                    "raise pipeline.memory, so that more is asked for ahead, or keep it with store.cache"
                }
                (false, true) => "raise pipeline.memory, so that more is asked for ahead",
            }
        }
        Fault::Memory if setting.window > 1 => "raise pipeline.memory or lower pipeline.window",
        Fault::Memory => "raise pipeline.memory",
        Fault::Own if awaits(meters) => "make it faster, or let it await several items at once",
        Fault::Own => "do its work on other threads, several items at once",
        Fault::Tokenize => {
            let workers = meters.stage("tokenize").map_or(0, |stage| stage.workers as usize);
            let is_full = workers_share(meters, "tokenize") >= FULL;
            let has_cores = workers < setting.cores && !are_cores_busy(meters) && !setting.tuned.workers;
            let is_crowded = setting.cores > 0 && workers > setting.cores && are_cores_busy(meters);
            match (is_full && has_cores, setting.can_keep_tokens) {
                _ if is_crowded => "set pipeline.workers to \"auto\", which takes no more workers than cores",
                (true, true) => "add workers or a token cache",
                (true, false) => "add workers",
                (false, true) => "add a token cache",
                (false, false) => return None,
            }
        }
        Fault::Cache => "put source.cache on a faster disk, or leave it out",
        Fault::Pack if setting.is_best_fit => "lower pipeline.pack_window",
        // Each lane has a task.
        Fault::Shuffle | Fault::Pack | Fault::Batch if has_room_for_lanes && !are_cores_busy(meters) => {
            "add lanes, which changes the order"
        }
        Fault::Documents => "longer documents take fewer steps",
        Fault::LongDocuments => "cut them into several documents",
        Fault::Start | Fault::Shuffle | Fault::Pack | Fault::Batch => return None,
        Fault::Runtime => "open the loader on a multi-thread runtime",
        // It grows by itself, and has reached its bound.
        Fault::Depth if setting.tuned.depth => return None,
        Fault::Depth => "raise pipeline.depth",
    };
    Some(remedy.to_owned())
}

/// The average number of a stage's threads that worked at once.
fn busy(meters: &Meters, stage: &str) -> String {
    format!("{:.1}", workers_share(meters, stage) * workers(meters, stage) as f64)
}

/// The number of a stage's threads, or the highest one if some were taken away.
fn workers(meters: &Meters, stage: &str) -> u64 {
    meters.stage(stage).map_or(0, |stage| stage.workers_at_most(meters.wall_seconds))
}

/// The average number of requests under way when the source waited for one of them.
fn requests(meters: &Meters) -> u64 {
    let store = meters.store.unwrap_or_default();
    match store.waits {
        0 => store.requests,
        waits => store.requests_at_waits.div_ceil(waits),
    }
}
