//! The controller over a simulated pipeline: batches have a cost, the consumer has a pace, and time is a
//! number.

use super::*;

/// What a batch costs, in milliseconds: to read, one after the other; to tokenize, by one worker; to consume.
type Costs = fn(usize) -> (f64, f64, f64);

struct Run {
    /// When the last batch was consumed.
    end: f64,
    workers: Vec<usize>,
    depths: Vec<usize>,
}

/// Runs `batches` batches. Each is read, then tokenized by the first free worker, with at most two per worker
/// under way; they leave in order, once there is room, and are consumed in order.
fn run(batches: usize, costs: Costs, workers: Range, depth: Range) -> Run {
    let mut tuner = Tuner::new(workers, depth);
    let mut free = vec![0.0_f64; workers.most()];
    let (mut sent, mut taken): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let (mut read, mut consumed) = (0.0_f64, 0.0_f64);
    let mut seen = Observation::default();
    let mut ended = Run { end: 0.0, workers: Vec::new(), depths: Vec::new() };
    for batch in 0..batches {
        let (reading, tokenizing, consuming) = costs(batch);
        let Decision { workers, depth } = tuner.now();
        let of = |times: &[f64], before: usize| {
            batch.checked_sub(before).and_then(|at| times.get(at)).copied().unwrap_or(0.0)
        };
        read = read.max(of(&sent, 2 * workers)) + reading;
        let worker = (0..workers).min_by(|&a, &b| free[a].total_cmp(&free[b])).expect("one");
        free[worker] = free[worker].max(read) + tokenizing;
        // Workers that were removed come back with nothing done.
        let now = free[worker];
        free[workers..].iter_mut().for_each(|time| *time = time.max(now - tokenizing));
        let made = now.max(of(&sent, 1));
        let leaves = made.max(of(&taken, depth));
        let takes = leaves.max(consumed);
        let milliseconds = |time: f64| Duration::from_secs_f64(time.max(0.0) / 1e3);
        seen.at = milliseconds(leaves);
        seen.waited += milliseconds(if batch == 0 { 0.0 } else { takes - consumed });
        seen.full += milliseconds(leaves - made);
        seen.worked += milliseconds(tokenizing);
        sent.push(leaves);
        taken.push(takes);
        seen.queued = taken.iter().rev().take_while(|time| **time > leaves).count();
        consumed = takes + consuming;
        tuner.observe(seen);
        ended.workers.push(workers);
        ended.depths.push(depth);
    }
    ended.end = consumed;
    ended
}

const CORES: usize = 4;
const DEEPEST: usize = 32;

/// The fastest of all fixed settings, and `auto`.
fn compare(costs: Costs) -> (f64, Run) {
    let fixed = (1..=CORES).flat_map(|workers| [1, 2, 4, 8, 16, 32].map(|depth| (workers, depth)));
    let ends = fixed.map(|(workers, depth)| run(6000, costs, Range::Fixed(workers), Range::Fixed(depth)).end);
    let best = ends.min_by(f64::total_cmp).expect("some");
    (best, run(6000, costs, Range::Auto(CORES), Range::Auto(DEEPEST)))
}

/// A number from 0 to 1, without a pattern.
fn noise(n: usize) -> f64 {
    let mixed = (n as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) as f64 / (1_u64 << 24) as f64
}

const SCENARIOS: [(&str, Costs); 7] = [
    ("fast consumer", |_| (0.1, 4.0, 0.2)),
    ("slow consumer", |_| (0.1, 4.0, 20.0)),
    ("a consumer that just keeps up", |n| (0.1, 4.0 + noise(n), 1.6)),
    ("a consumer that changes", |n| (0.1, 4.0, if n / 1500 % 2 == 0 { 20.0 } else { 0.5 })),
    ("slow disk", |n| (3.0 + noise(n), 1.0, 1.0)),
    ("expensive among cheap", |n| (0.1, if n % 97 < 3 { 60.0 } else { 1.0 }, 2.0)),
    ("bursts of the disk", |n| (if n % 200 == 0 { 60.0 } else { 0.5 }, 1.0, 2.0)),
];

#[test]
fn it_is_within_five_percent_of_the_best_fixed_setting() {
    for (name, costs) in SCENARIOS {
        let (best, auto) = compare(costs);
        assert!(auto.end <= 1.05 * best, "{name}: {:.0} ms, and the best is {best:.0}", auto.end);
    }
}

#[test]
fn it_takes_no_more_than_it_needs() {
    let last = |name: &str| {
        let (_, costs) = SCENARIOS.into_iter().find(|(this, _)| *this == name).expect("it");
        let run = run(6000, costs, Range::Auto(CORES), Range::Auto(DEEPEST));
        (run.workers[5999], run.depths[5999])
    };
    assert_eq!(last("slow consumer"), (1, LEAST_DEPTH));
    let (workers, depth) = last("fast consumer");
    assert_eq!((workers, depth), (CORES, FIRST_DEPTH), "a deeper queue helps nobody who empties it");
    let (workers, _) = last("slow disk");
    assert_eq!(workers, CORES, "who waits for a disk always keeps those that have nothing to do");
    let (_, depth) = last("expensive among cheap");
    assert!(depth > FIRST_DEPTH);
}

#[test]
fn it_does_not_swing() {
    for (name, costs) in SCENARIOS {
        let (_, auto) = compare(costs);
        let changes = |of: &[usize]| of[1500..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        let (workers, depths) = (changes(&auto.workers), changes(&auto.depths));
        assert!(workers <= 16 && depths <= 60, "{name}: {workers} changes of workers, {depths} of the depth");
    }
}

#[test]
fn numbers_stay_within_their_bounds() {
    for (_, costs) in SCENARIOS {
        let fixed = run(2000, costs, Range::Fixed(3), Range::Auto(5));
        assert!(fixed.workers.iter().all(|workers| *workers == 3));
        assert!(fixed.depths.iter().all(|depth| (1..=5).contains(depth)));
        let fixed = run(2000, costs, Range::Auto(2), Range::Fixed(7));
        assert!(fixed.depths.iter().all(|depth| *depth == 7));
        assert!(fixed.workers.iter().all(|workers| (1..=2).contains(workers)));
        let one = run(200, costs, Range::Auto(1), Range::Auto(1));
        assert!(one.workers.iter().chain(&one.depths).all(|number| *number == 1));
    }
}

#[test]
fn what_is_missed_at_once_stays_longer_and_what_is_missed_late_no_longer_than_at_first() {
    let mut patience = Patience::new(8);
    // Windows without need until a removal, then `after` more, then one with need.
    let mut calm_and_need = |after: u32| {
        let mut windows = 0;
        loop {
            patience.pass();
            windows += 1;
            if patience.is_over() {
                break;
            }
        }
        // There is nothing to take away any more.
        (0..after).for_each(|_| patience.pass());
        patience.is_needed();
        // It is still needed in the next one.
        patience.pass();
        patience.is_needed();
        windows
    };
    assert_eq!([1, 1, 1].map(&mut calm_and_need), [8, 16, 32]);
    assert_eq!([200, 200, 200, 200].map(&mut calm_and_need), [64, 32, 16, 8]);
    assert_eq!([200; 20].map(&mut calm_and_need), [8; 20]);
    assert_eq!([1; 10].map(&mut calm_and_need)[9], CALMEST);
}
