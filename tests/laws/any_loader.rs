//! `verify` proves a loader that is not Millstream's, and names the first row that is lost, repeated or changed.
//!
//! This program is both sides: `verify` starts it as its children, each with the names of an ignored test and a defect.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use millstream::config::SourceConfig;
use millstream::verify::{DifferenceKind, Law, Plan, Report, RowAt};
use millstream::{Config, Error, Loader, Result, verify};
use serde_json::{Value, json};

use crate::support::runtime::block_on;

/// How many rows the loader has, and how many are in a batch.
const ROWS: usize = 240;
const BATCH: usize = 4;
const BATCHES: u64 = (ROWS / BATCH) as u64;

/// What may be wrong with a loader.
const DEFECTS: [&str; 18] = [
    // Nothing: its rows are named otherwise in each process, which must not matter.
    "none",
    "loses_a_row_at_resume",
    "repeats_a_batch_at_resume",
    // At the first resume; the batch comes last.
    "puts_off_a_batch_at_resume",
    "changes_a_row_with_two_workers",
    "swaps_rows_with_two_workers",
    "inserts_a_row_with_two_workers",
    "replaces_a_row_with_two_workers",
    "ends_early_with_two_workers",
    "ends_late_with_two_workers",
    "shares_a_row_in_a_world",
    // Both have two epochs of the same rows.
    "loses_a_row_of_the_second_epoch_with_two_workers",
    "repeats_a_batch_of_the_first_epoch_with_two_workers",
    "refuses_its_state",
    "crashes_after_it_lost_a_row",
    "counts_from_zero",
    "logs_no_json",
    "ignores_its_orders",
];

/// The child: `verify` starts this program anew with the name of this test, and of a defect behind it. Otherwise it
/// does nothing.
#[test]
#[ignore = "other tests start it as their child"]
fn child() {
    let Some(orders) = std::env::var_os("MILLSTREAM_VERIFY_ORDERS") else { return };
    match &*std::env::args().next_back().expect("a name") {
        "millstream" => assert!(block_on(verify::serve(Loader::builder)).expect("no error")),
        defect => deliver(defect, Path::new(&orders)),
    }
}

/// A row as it is logged: the digest of its contents, and its name.
type Row = (String, String);

fn row(nth: usize) -> Row {
    let number = nth * 37 % ROWS;
    (format!("{number:032x}"), name(nth))
}

/// The name of a row of the reference.
fn name(nth: usize) -> String {
    let number = nth * 37 % ROWS;
    format!("corpus/{}.jsonl:{}", ["a", "b"][number % 2], number / 2 + 1)
}

fn foreign(name: &str) -> Row {
    ("f".repeat(32), name.to_owned())
}

/// All rows, in order.
fn rows(defect: &str, workers: u64) -> Vec<Row> {
    let epoch = match defect {
        "loses_a_row_of_the_second_epoch_with_two_workers" => ROWS / 2,
        "repeats_a_batch_of_the_first_epoch_with_two_workers" => ROWS / 2,
        _ => ROWS,
    };
    let mut rows: Vec<Row> = (0..ROWS).map(|nth| row(nth % epoch)).collect();
    if workers == 2 {
        match defect {
            "changes_a_row_with_two_workers" => rows[50] = foreign(&name(50)),
            "swaps_rows_with_two_workers" => rows.swap(50, 55),
            "inserts_a_row_with_two_workers" => rows.insert(50, foreign("nowhere:1")),
            "replaces_a_row_with_two_workers" => rows[50] = foreign("nowhere:1"),
            "loses_a_row_of_the_second_epoch_with_two_workers" => drop(rows.remove(170)),
            "repeats_a_batch_of_the_first_epoch_with_two_workers" => {
                let batch = rows[44..44 + BATCH].to_vec();
                rows.splice(48..48, batch);
            }
            "ends_early_with_two_workers" => rows.truncate(ROWS - 2 * BATCH),
            "ends_late_with_two_workers" => rows.extend_from_within(..BATCH),
            _ => {}
        }
    }
    rows
}

/// Follows the orders, as a program in another language would.
fn deliver(defect: &str, orders: &Path) {
    assert!(DEFECTS.contains(&defect), "there is no defect {defect:?}");
    let orders: Value = serde_json::from_slice(&std::fs::read(orders).expect("orders")).expect("JSON");
    assert!(orders["config"].is_null(), "{orders}");
    let until = orders["until"].as_u64().expect("a number");
    let step = &orders["step"];
    let step = Duration::new(
        step["secs"].as_u64().expect("seconds"),
        step["nanos"].as_u64().expect("nanoseconds") as u32,
    );
    let log = Path::new(orders["log"].as_str().expect("a path"));
    let of = |key: &str| orders["loader"][key].as_u64().expect("a number");
    let (workers, rank, world, from) = (of("workers"), of("rank") as usize, of("world") as usize, of("from"));
    let states = orders["loader"]["states"].as_array().expect("states");

    // The position is the number of rows that all ranks have delivered together.
    let (mut position, mut rows, mut first_resume) = (0, rows(defect, workers), None);
    if let Some(state) = states.first() {
        assert!(states.iter().all(|it| it["position"] == state["position"]), "of the same batch: {orders}");
        let state: Value = serde_json::from_str(state.as_str().expect("text")).expect("JSON");
        position = state["position"].as_u64().expect("a number") as usize;
        assert_eq!(position as u64 / BATCH as u64, from, "{orders}");
        assert_eq!(states.len() as u64, state["world"], "one for each rank: {orders}");
        match defect {
            "loses_a_row_at_resume" | "crashes_after_it_lost_a_row" => position += 1,
            "repeats_a_batch_at_resume" => position -= BATCH,
            "refuses_its_state" => {
                return std::fs::write(log.with_extension("refused"), "it is too old").expect("written");
            }
            _ => {}
        }
        let again = state["first_resume"].as_u64().map(|it| it as usize);
        assert!(defect != "crashes_after_it_lost_a_row" || again.is_none(), "it goes on only once");
        first_resume = again.or(Some(position));
    }
    if defect == "ignores_its_orders" {
        return;
    }
    let mut log = OpenOptions::new().append(true).open(log).expect("a log");
    if let ("puts_off_a_batch_at_resume", Some(at)) = (defect, first_resume) {
        rows[at..].rotate_left(BATCH);
    }
    for batch in if defect == "counts_from_zero" { 0 } else { from }..until {
        if position >= rows.len() {
            break;
        }
        // The last rank has the first rows.
        let (share, nth) = (BATCH / world, world - 1 - rank);
        let at = position + nth * share;
        let mut own = rows[at.min(rows.len())..(at + share).min(rows.len())].to_vec();
        position = (position + BATCH).min(rows.len());
        if defect == "shares_a_row_in_a_world" && world == 2 && batch == 5 && rank == 1 {
            own[1] = rows[5 * BATCH + 2].clone();
        }
        if defect == "none" {
            own.iter_mut().for_each(|row| row.1 += &format!(" of process {}", std::process::id()));
        }
        let state = json!({ "position": position, "world": world, "first_resume": first_resume }).to_string();
        let line = json!({ "batch": batch, "rows": own, "state": state });
        let line = if defect == "logs_no_json" { "no batch\n".to_owned() } else { format!("{line}\n") };
        log.write_all(line.as_bytes()).expect("written");
        std::thread::sleep(step);
    }
}

/// A plan whose children have this defect.
fn plan(defect: &str) -> Plan {
    let mut plan = Plan::of_any(std::env::current_exe().expect("this program"));
    plan.args =
        ["--exact", "--ignored", "--nocapture", "any_loader::child", defect].map(str::to_owned).to_vec();
    (plan.points, plan.seed) = (6, 7);
    plan
}

fn run(defect: &str, change: impl FnOnce(&mut Plan)) -> Result<Report> {
    let mut plan = plan(defect);
    change(&mut plan);
    plan.run(&AtomicBool::new(false))
}

/// The laws and runs that differ.
fn broken(report: &Report) -> Vec<(Law, &str)> {
    let broken = report.checks.iter().filter(|check| check.difference.is_some());
    broken.map(|check| (check.law, &*check.how)).collect()
}

fn at(nth: usize) -> Option<RowAt> {
    Some(RowAt { batch: (nth / BATCH) as u64, row: nth % BATCH })
}

#[test]
fn a_sound_loader_passes() {
    // To the end, and cut.
    for batches in [2000, 40] {
        let report = run("none", |plan| (plan.batches, plan.worlds) = (batches, vec![1, 2, 4]));
        let report = report.expect("no error");
        assert_eq!(report.mismatches, 0, "{report}");
        let batches = batches.min(BATCHES);
        assert_eq!((report.batches, report.rows), (batches, 4 * batches), "{report}");
        assert_eq!((&report.workers[..], report.depths.len()), (&[0, 1, 2][..], 0));
        assert_eq!(report.resume_points, 6, "{report}");
        let told = |law| report.checks.iter().filter(move |check| check.law == law).map(|check| &*check.how);
        assert_eq!(told(Law::Order).collect::<Vec<_>>(), ["workers 0", "workers 1", "workers 2"]);
        for workers in 0..3 {
            let all = format!("workers {workers}, killed after ");
            assert!(told(Law::Resume).any(|how| how.starts_with(&all)), "{report}");
        }
        let worlds: Vec<&str> =
            told(Law::World).map(|how| how.split(" after ").next().expect("a world")).collect();
        assert_eq!(
            worlds,
            [
                "world 1", "world 2, from world 1", "world 2", "world 2, from world 2",
                "world 4, from world 2", "world 4", "world 4, from world 4", "world 1, from world 4"
            ]
        );
        for check in report.checks.iter().filter(|check| !check.how.contains("from world")) {
            assert_eq!((check.batches, check.rows), (report.batches, report.rows), "{report}");
        }
    }
}

#[test]
fn one_world_alone_goes_on_in_its_own_size() {
    let of_worlds = |worlds: &[usize]| {
        let report = run("none", |plan| (plan.points, plan.worlds) = (0, worlds.to_vec()));
        let checks = report.expect("no error").checks;
        checks.iter().filter(|check| check.law == Law::World).count()
    };
    assert_eq!((of_worlds(&[1]), of_worlds(&[2])), (0, 2));
}

/// The number of the last kill of a run.
fn last_kill(how: &str) -> usize {
    how.rsplit([' ', ',']).nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_row_that_is_lost_at_resume_is_named() {
    for batches in [2000, 40] {
        let report = run("loses_a_row_at_resume", |plan| plan.batches = batches).expect("no error");
        assert!(report.mismatches == 3 && broken(&report).iter().all(|it| it.0 == Law::Resume), "{report}");
        let (check, difference) = report.first_difference().expect("a difference");
        let nth = last_kill(&check.how) * BATCH;
        assert_eq!(
            (Some(difference.batch), difference.row),
            (at(nth).map(|it| it.batch), Some(0)),
            "{report}"
        );
        assert_eq!(difference.kind, DifferenceKind::Lost, "{report}");
        assert_eq!((difference.expected_at, difference.found_at), (None, at(nth + 1)), "{report}");
        let said = format!(
            "batch {batch}, row 0: lost: expected {}, which comes nowhere in the rest of the run; it is row 1 of batch \
             {batch} of the reference ({})",
            name(nth),
            name(nth + 1),
            batch = nth / BATCH,
        );
        assert!(report.to_string().ends_with(&said), "{report}");
    }
}

#[test]
fn a_batch_that_is_repeated_at_resume_is_named() {
    let report = run("repeats_a_batch_at_resume", |_| {}).expect("no error");
    assert!(report.mismatches == 3 && broken(&report).iter().all(|it| it.0 == Law::Resume), "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    let nth = last_kill(&check.how) * BATCH;
    assert_eq!(difference.kind, DifferenceKind::Repeated, "{report}");
    let there = (difference.expected_at, difference.found_at);
    assert_eq!(there, (at(nth + BATCH), at(nth - BATCH)), "{report}");
    let batch = nth / BATCH;
    let said = format!(
        "batch {batch}, row 0: repeated: it is row 0 of batch {} again ({}); expected {}, which comes as row 0 of batch \
         {}",
        batch - 1,
        name(nth - BATCH),
        name(nth),
        batch + 1
    );
    assert!(report.to_string().ends_with(&said), "{report}");
}

#[test]
fn a_row_that_comes_much_later_is_found_though_the_child_is_killed_before() {
    let report = run("puts_off_a_batch_at_resume", |_| {}).expect("no error");
    let (check, difference) = report.first_difference().expect("a difference");
    let nth = last_kill(&check.how) * BATCH;
    assert_eq!((Some(difference.batch), difference.row), (at(nth).map(|it| it.batch), Some(0)), "{report}");
    assert_eq!(difference.kind, DifferenceKind::Moved, "{report}");
    assert_eq!(
        (difference.expected_at, difference.found_at),
        (at(ROWS - BATCH), at(nth + BATCH)),
        "{report}"
    );
}

/// What the first run with two workers says, if only runs with two workers differ.
fn with_two_workers(defect: &str) -> (Report, String) {
    let report = run(defect, |_| {}).expect("no error");
    let broken = broken(&report);
    assert!(broken[0] == (Law::Order, "workers 2"), "{report}");
    assert!(broken[1..].iter().all(|(law, how)| *law == Law::Resume && how.starts_with("workers 2, ")));
    let said = report.to_string().lines().last().expect("a line").to_owned();
    (report, said)
}

#[test]
fn a_row_that_workers_change_is_named() {
    let (report, said) = with_two_workers("changes_a_row_with_two_workers");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!((difference.batch, difference.row, difference.kind), (12, Some(2), DifferenceKind::Changed));
    let named = format!("batch 12, row 2: changed: it is {}, as expected, but with other contents", name(50));
    assert!(said.ends_with(&named), "{said}");
    let json = serde_json::to_value(difference).expect("JSON");
    let name = [name(50)];
    assert_eq!(
        json,
        json!({
            "batch": 12, "row": 2, "expected": name, "found": name,
            "kind": "changed", "expected_at": null, "found_at": null,
        })
    );
}

#[test]
fn rows_that_move_come_or_go_are_named() {
    let (report, said) = with_two_workers("swaps_rows_with_two_workers");
    let named = format!(
        "batch 12, row 2: moved: expected {}, which comes as row 3 of batch 13; it is row 3 of batch 13 of the \
         reference ({})",
        name(50),
        name(55)
    );
    assert!(said.ends_with(&named), "{said}");
    let json = serde_json::to_value(report.first_difference().expect("a difference").1).expect("JSON");
    assert_eq!(json["kind"], "moved");
    assert_eq!(json["expected_at"], json!({ "batch": 13, "row": 3 }));

    let (_, said) = with_two_workers("inserts_a_row_with_two_workers");
    let named = format!(
        "batch 12, row 2: inserted: it is nowhere:1, which the reference has nowhere; expected {}, which comes as row 3 \
         of batch 12",
        name(50)
    );
    assert!(said.ends_with(&named), "{said}");

    let (_, said) = with_two_workers("replaces_a_row_with_two_workers");
    let named = format!(
        "batch 12, row 2: replaced: expected {}, which comes nowhere in the rest of the run; it is nowhere:1, which the \
         reference has nowhere",
        name(50)
    );
    assert!(said.ends_with(&named), "{said}");
}

#[test]
fn of_equal_rows_the_nearest_is_named() {
    let (report, _) = with_two_workers("loses_a_row_of_the_second_epoch_with_two_workers");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!((difference.kind, difference.found_at), (DifferenceKind::Lost, at(171)), "{report}");
    let (report, _) = with_two_workers("repeats_a_batch_of_the_first_epoch_with_two_workers");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!((difference.kind, difference.found_at), (DifferenceKind::Repeated, at(44)), "{report}");
    assert_eq!(difference.expected_at, at(48 + BATCH), "{report}");
}

#[test]
fn batches_that_are_missing_or_too_many_are_named() {
    let names = |from: usize| (from..from + BATCH).map(name).collect::<Vec<_>>().join(", ");
    let (report, said) = with_two_workers("ends_early_with_two_workers");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!((difference.batch, difference.row, difference.kind), (58, None, DifferenceKind::Lost));
    assert!(said.ends_with(&format!("batch 58 is missing: {}", names(58 * BATCH))), "{said}");
    // The reference ends before.
    let report = run("ends_late_with_two_workers", |_| {}).expect("no error");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!((difference.batch, difference.row, difference.kind), (60, None, DifferenceKind::Repeated));
    let said = format!("batch 60 is one too many: {}; it begins with row 0 of batch 0 again", names(0));
    assert!(report.to_string().ends_with(&said), "{report}");
}

#[test]
fn a_row_that_two_ranks_have_is_named() {
    let report = run("shares_a_row_in_a_world", |plan| plan.worlds = vec![1, 2]).expect("no error");
    assert!(broken(&report).contains(&(Law::World, "world 2")), "{report}");
    assert!(
        broken(&report).iter().all(|(law, how)| *law == Law::World && how.starts_with("world 2")),
        "{report}"
    );
    let world = report.checks.iter().find(|check| check.how == "world 2").expect("a check");
    let difference = world.difference.as_ref().expect("a difference");
    // Rank 1 has the rows 0 and 1 of the batch. Its second one is row 2, which is rank 0's.
    assert_eq!((difference.batch, difference.row, difference.kind), (5, Some(1), DifferenceKind::Repeated));
    assert_eq!((difference.expected_at, difference.found_at), (None, at(5 * BATCH + 2)), "{report}");
    assert_eq!((&difference.expected, &difference.found), (&vec![name(21)], &vec![name(22)]), "{report}");
}

#[test]
fn a_state_that_is_refused_is_a_difference() {
    let report = run("refuses_its_state", |_| {}).expect("no error");
    assert!(!broken(&report).is_empty() && broken(&report).iter().all(|it| it.0 == Law::Resume), "{report}");
    let (check, difference) = report.first_difference().expect("a difference");
    assert!(check.how.ends_with(": the state was refused, it is too old"), "{report}");
    assert_eq!((difference.row, difference.kind), (None, DifferenceKind::Lost), "{report}");
}

#[test]
fn a_difference_is_told_even_if_the_loader_fails_after_it() {
    let report = run("crashes_after_it_lost_a_row", |plan| plan.workers = vec![0]);
    let report = report.expect("a report");
    let difference = report.first_difference().expect("a difference").1;
    assert_eq!(difference.kind, DifferenceKind::Lost, "{report}");
}

#[test]
fn a_child_that_does_not_follow_its_orders_is_told_how() {
    let problem = |defect: &str| match run(defect, |_| {}).expect_err("it fails") {
        Error::Verify { problem } => problem,
        error => panic!("{error:?}"),
    };
    let said = problem("counts_from_zero");
    assert!(said.contains("it has batch 0 where batch ") && said.contains("from `loader.from`"), "{said}");
    let said = problem("logs_no_json");
    assert!(said.contains("this is not a log of batches"), "{said}");
    let said = problem("ignores_its_orders");
    assert!(
        said.contains("made no batch; it must log") && said.contains("MILLSTREAM_VERIFY_ORDERS"),
        "{said}"
    );
    // A Millstream loader needs a config.
    let said = problem("millstream");
    assert!(
        said.contains("the reference: the child failed") && said.contains("give verify the config too"),
        "{said}"
    );
}

#[test]
fn a_plan_says_what_is_wrong_with_it() {
    let problem = |change: fn(&mut Plan)| {
        let mut plan = plan("none");
        change(&mut plan);
        plan.check().expect_err("it is refused").to_string()
    };
    assert!(problem(|plan| plan.depths = vec![1]).contains("only a Millstream loader has a depth"));
    assert!(problem(|plan| plan.workers = Vec::new()).contains("name at least one number of workers"));
    assert!(problem(|plan| plan.worlds = vec![0]).contains("must be at least 1, not 0"));
    assert_eq!(plan("none").config_mut(), None);
    let mut plan = Plan::new(Config::default().with_source(SourceConfig::text("*.txt")), "x");
    plan.workers = vec![0];
    let said = plan.check().expect_err("a Millstream loader has workers").to_string();
    assert!(said.contains("`workers` must be at least 1, not 0: a Millstream loader"), "{said}");
}
