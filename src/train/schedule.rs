//! Computes the learning rate of a step. Holds nothing.

use crate::config::TrainConfig;

/// The learning rate of step `step`, from 0: a linear rise over `warmup` steps, then a cosine down to `min_lr` at the
/// last step, then `min_lr`.
pub(super) fn learning_rate(config: &TrainConfig, step: u64) -> f64 {
    if step < config.warmup {
        return config.lr * (step + 1) as f64 / config.warmup as f64;
    }
    let last = config.steps.saturating_sub(1);
    let progress =
        if step >= last { 1.0 } else { (step - config.warmup) as f64 / (last - config.warmup) as f64 };
    config.min_lr + (config.lr - config.min_lr) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_rises_to_lr_and_falls_to_min_lr() {
        let config = TrainConfig { steps: 101, warmup: 10, lr: 1.0, min_lr: 0.1, ..TrainConfig::default() };
        let rates: Vec<f64> = (0..120).map(|step| learning_rate(&config, step)).collect();
        assert_eq!(rates[0], 0.1);
        assert_eq!(rates[9], 1.0);
        assert_eq!(rates[10], 1.0);
        assert!(rates[..10].is_sorted());
        assert!(rates[10..=100].is_sorted_by(|a, b| a >= b));
        assert!((rates[55] - 0.55).abs() < 1e-12, "half way is the mean: {}", rates[55]);
        assert_eq!(rates[100], 0.1);
        assert_eq!(rates[119], 0.1);
    }

    #[test]
    fn a_run_shorter_than_its_warmup_and_a_run_of_one_step_have_rates() {
        let short = TrainConfig { steps: 5, warmup: 10, lr: 1.0, min_lr: 0.1, ..TrainConfig::default() };
        assert_eq!(learning_rate(&short, 4), 0.5);
        let one = TrainConfig { steps: 1, warmup: 0, lr: 1.0, min_lr: 0.1, ..TrainConfig::default() };
        assert_eq!(learning_rate(&one, 0), 0.1);
    }
}
