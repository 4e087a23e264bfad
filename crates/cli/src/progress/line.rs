//! One line of progress that fits into a terminal: the least important parts are left out first, and nothing is
//! wrapped.

/// The progress of a command.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BarState {
    pub(super) done: u64,
    /// The number of steps; 0 if that is not known.
    pub(super) of: u64,
    /// The time left, in words.
    pub(super) left: String,
}

/// The length of the bar, in characters.
const BAR: usize = 24;

/// The line, at most `width` characters long: a bar, the steps, the time left and the message. `messages` are one message
/// in ever shorter forms. The bar is left out first, then the time left, and only then is a shorter message taken.
pub(super) fn fitted(state: &BarState, messages: &[String], width: usize) -> String {
    let (bar, at, left) = (bar(state), at(state), left(state));
    let with = |message: &str| {
        [joined(&[&bar, &at, &left, message]), joined(&[&at, &left, message]), joined(&[&at, message])]
    };
    let lines = messages.iter().flat_map(|message| with(message)).chain([at.clone()]);
    let fits = |line: &String| line.chars().count() <= width;
    let mut lines = lines.filter(|line| !line.is_empty());
    lines.find(fits).unwrap_or_else(|| at.chars().take(width).collect())
}

fn bar(&BarState { done, of, .. }: &BarState) -> String {
    if of == 0 {
        return String::new();
    }
    let full = (BAR as u128 * u128::from(done.min(of)) / u128::from(of)) as usize;
    "█".repeat(full) + &"░".repeat(BAR - full)
}

fn at(&BarState { done, of, .. }: &BarState) -> String {
    if of == 0 { String::new() } else { format!("{done}/{of}") }
}

fn left(BarState { left, .. }: &BarState) -> String {
    if left.is_empty() { String::new() } else { format!("{left} left") }
}

/// The parts that are not empty, with spaces between them.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<String> {
        let loss = "loss 3.142  12345 tokens/s";
        let sentence =
            "the trainer waits 12% of the time: tokenize has 1.6 of 2 workers busy; add a token cache";
        [format!("{loss}  {sentence}"), format!("{loss}  waits 12% for tokenize"), "loss 3.142".to_owned()]
            .into()
    }

    fn line(width: usize) -> String {
        let state = BarState { done: 120, of: 1000, left: "3m".to_owned() };
        fitted(&state, &messages(), width)
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        for width in 1..300 {
            assert!(line(width).chars().count() <= width, "{width}: {}", line(width));
        }
    }

    #[test]
    fn what_matters_least_is_left_out_first() {
        let [whole, brief, briefest] = &messages()[..] else { panic!("three") };
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
        let state = BarState { done: 7, of: 0, left: String::new() };
        assert_eq!(fitted(&state, &["listing  4 s".to_owned()], 40), "listing  4 s");
        assert_eq!(fitted(&state, &["listing  4 s".to_owned()], 4), "");
    }
}
