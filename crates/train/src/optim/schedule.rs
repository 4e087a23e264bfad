//! Computes the learning rate of a step. Holds nothing: a resumed run computes the same rates.

use crate::config::{Schedule, TrainConfig};

/// The learning rate of step `step`, from 0: a linear rise over `warmup` steps, then the schedule down to `min_lr` at the
/// last step, which later steps keep.
pub(crate) fn learning_rate(config: &TrainConfig, step: u64) -> f64 {
    if step < config.warmup {
        return config.lr() * (step + 1) as f64 / config.warmup as f64;
    }
    match share(config, step) {
        // Not a last bit above it.
        1.0 => config.lr(),
        share => config.min_lr() + (config.lr() - config.min_lr()) * share,
    }
}

/// How much of the way from `min_lr` to `lr` is left at a step after the warmup.
fn share(config: &TrainConfig, step: u64) -> f64 {
    let last = config.steps.saturating_sub(1);
    // How much of the steps from `from` to the last one is left.
    let left = |from: u64| match step >= last {
        true => 0.0,
        false => ((last - step) as f64 / (last - from) as f64).min(1.0),
    };
    match config.schedule {
        Schedule::Cosine => 0.5 * (1.0 - (std::f64::consts::PI * left(config.warmup)).cos()),
        Schedule::Linear => left(config.warmup),
        Schedule::Constant => 1.0,
        Schedule::Wsd => {
            let decay = config.decay.unwrap_or(config.steps / 5);
            left(last.saturating_sub(decay).max(config.warmup))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rates of 120 steps, the first ten of which rise, in a run of 101.
    fn rates(schedule: Schedule, decay: Option<u64>) -> Vec<f64> {
        let config = TrainConfig {
            schedule,
            decay,
            steps: 101,
            warmup: 10,
            lr: Some(1.0),
            min_lr: Some(0.1),
            ..TrainConfig::default()
        };
        (0..120).map(|step| learning_rate(&config, step)).collect()
    }

    fn assert_near(rate: f64, expected: f64) {
        assert!((rate - expected).abs() < 1e-12, "{rate} and {expected}");
    }

    #[test]
    fn the_rate_rises_to_lr_and_falls_to_min_lr() {
        for schedule in [Schedule::Cosine, Schedule::Linear, Schedule::Wsd] {
            let rates = rates(schedule, None);
            assert_eq!(rates[0], 0.1);
            assert_eq!(rates[9], 1.0);
            assert_eq!(rates[10], 1.0);
            assert!(rates[..10].is_sorted());
            assert!(rates[10..=100].is_sorted_by(|a, b| a >= b));
            assert_eq!(rates[100], 0.1);
            assert_eq!(rates[119], 0.1);
        }
        assert!(rates(Schedule::Constant, None)[10..].iter().all(|rate| *rate == 1.0));
    }

    #[test]
    fn each_schedule_has_its_shape() {
        let (cosine, linear) = (rates(Schedule::Cosine, None), rates(Schedule::Linear, None));
        assert_near(cosine[55], 0.55);
        assert_near(cosine[40], 0.1 + 0.9 * 0.75);
        assert_near(linear[55], 0.55);
        assert_near(linear[40], 0.1 + 0.9 * 2.0 / 3.0);
        // The last fifth of the steps, or as many as are asked for.
        for (decay, steps) in [(None, 20), (Some(50), 50), (Some(1), 1), (Some(101), 90)] {
            let wsd = rates(Schedule::Wsd, decay);
            assert!(wsd[10..=100 - steps].iter().all(|rate| *rate == 1.0));
            assert_near(wsd[101 - steps], 1.0 - 0.9 / steps as f64);
            assert_eq!(wsd[100], 0.1);
        }
    }

    #[test]
    fn a_run_shorter_than_its_warmup_and_a_run_of_one_step_have_rates() {
        let short =
            TrainConfig { steps: 5, warmup: 10, lr: Some(1.0), min_lr: Some(0.1), ..TrainConfig::default() };
        assert_eq!(learning_rate(&short, 4), 0.5);
        let one =
            TrainConfig { steps: 1, warmup: 0, lr: Some(1.0), min_lr: Some(0.1), ..TrainConfig::default() };
        assert_eq!(learning_rate(&one, 0), 0.1);
    }
}
