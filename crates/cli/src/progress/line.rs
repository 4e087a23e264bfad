//! One line of progress that fits into a terminal: the least important parts are left out first, and nothing is
//! wrapped.

use std::time::Duration;

/// The length of the bar, in characters.
const BAR: usize = 24;

/// The line, at most `width` characters long: a bar, the steps, the time left and the message. `of` is 0 if the number of
/// steps is not known. `messages` are one message in ever shorter forms. The bar is left out first, then the time left,
/// and only then is a shorter message taken.
pub(super) fn fitted(
    done: u64,
    of: u64,
    left: Option<Duration>,
    messages: &[String],
    width: usize,
) -> String {
    let full = (BAR as u128 * u128::from(done.min(of))).checked_div(u128::from(of)).map(|full| full as usize);
    let bar = full.map_or_else(String::new, |full| "█".repeat(full) + &"░".repeat(BAR - full));
    let at = if of == 0 { String::new() } else { format!("{done}/{of}") };
    let left = left.filter(|_| of > 0).map_or_else(String::new, |left| format!("{} left", brief(left)));
    let with = |message: &str| {
        [joined(&[&bar, &at, &left, message]), joined(&[&at, &left, message]), joined(&[&at, message])]
    };
    let lines = messages.iter().flat_map(|message| with(message)).chain([at.clone()]);
    let fits = |line: &String| line.chars().count() <= width;
    let mut lines = lines.filter(|line| !line.is_empty());
    lines.find(fits).unwrap_or_else(|| at.chars().take(width).collect())
}

/// A time in whole units, such as 3m.
fn brief(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    match units.into_iter().find(|(unit, _)| seconds >= 2 * unit) {
        Some((unit, name)) => format!("{}{name}", seconds / unit),
        None => format!("{seconds}s"),
    }
}

/// The parts that are not empty, with spaces between them.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matters_least_is_left_out_first() {
        let loss = "loss 3.142  12345 tokens/s";
        let sentence =
            "the trainer waits 12% of the time: tokenize has 1.6 of 2 workers busy; add a token cache";
        let messages = [
            format!("{loss}  {sentence}"),
            format!("{loss}  waits 12% for tokenize"),
            "loss 3.142".to_owned(),
        ];
        let line = |width| fitted(120, 1000, Some(Duration::from_secs(230)), &messages, width);
        let [whole, brief, briefest] = &messages;
        assert_eq!(line(300), format!("██░░░░░░░░░░░░░░░░░░░░░░  120/1000  3m left  {whole}"));
        assert_eq!(line(150), format!("120/1000  3m left  {whole}"));
        assert_eq!(line(100), format!("██░░░░░░░░░░░░░░░░░░░░░░  120/1000  3m left  {brief}"));
        assert_eq!(line(79), format!("120/1000  3m left  {brief}"));
        assert_eq!(line(40), format!("120/1000  3m left  {briefest}"));
        assert_eq!(line(25), format!("120/1000  {briefest}"));
        assert_eq!((line(10), line(3)), ("120/1000".to_owned(), "120".to_owned()));
    }

    #[test]
    fn what_has_no_end_has_no_bar() {
        let line = |width| fitted(7, 0, None, &["listing  4 s".to_owned()], width);
        assert_eq!((line(40), line(4)), ("listing  4 s".to_owned(), String::new()));
    }
}
