//! Continues a prompt with a model's text, piece by piece. Holds the keys and values of at most `seq_len` ids.

use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use super::attention::KeyValues;
use super::gpt::Gpt;
use super::random::Uniform;
use crate::device::reading::read;
use millstream::error::{Error, Result};
use millstream::tokenizer::Tokenizer;

/// Settings for how text is drawn from a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// The maximum number of tokens to draw.
    pub tokens: usize,
    /// The logits are divided by this; 0 always takes the most likely token.
    pub temperature: f64,
    /// Draws only from this many of the most likely tokens.
    pub top_k: Option<usize>,
    /// Draws only from the most likely tokens that together have this probability.
    pub top_p: Option<f64>,
    /// The seed of the draw; the text also depends on the model and the prompt.
    pub seed: u64,
    /// The tokens that each document begins with. They are read before the prompt.
    pub begin: Vec<u32>,
    /// The tokens that end the text: whichever comes first, which is not part of it. Without `begin`, an empty prompt
    /// begins with the first of them.
    pub ends: Vec<u32>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            tokens: 128,
            temperature: 0.8,
            top_k: Some(50),
            top_p: Some(0.95),
            seed: 0,
            begin: Vec::new(),
            ends: Vec::new(),
        }
    }
}

impl Sampling {
    fn validate(&self) -> Result<()> {
        let wrong = |key: &str, problem: String| Err(Error::config(key, problem));
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return wrong("temperature", format!("must be at least 0, not {}", self.temperature));
        }
        if self.top_k == Some(0) {
            return wrong("top_k", "must be at least 1, not 0".to_owned());
        }
        if let Some(top_p) = self.top_p
            && !(top_p > 0.0 && top_p <= 1.0)
        {
            return wrong("top_p", format!("must be more than 0 and at most 1, not {top_p}"));
        }
        Ok(())
    }

    /// Draws one id. Ties go to the smaller id, so the draw is the same everywhere.
    fn draw(&self, logits: &[f32], random: &mut Uniform) -> u32 {
        let mut ids: Vec<u32> = (0..logits.len() as u32).collect();
        let logit = |id: u32| f64::from(logits[id as usize]);
        let likelier = |a: &u32, b: &u32| logit(*b).total_cmp(&logit(*a)).then(a.cmp(b));
        let k = if self.temperature == 0.0 { 1 } else { self.top_k.unwrap_or(ids.len()).min(ids.len()) };
        if k < ids.len() {
            ids.select_nth_unstable_by(k, likelier);
            ids.truncate(k);
        }
        ids.sort_unstable_by(likelier);
        if ids.len() == 1 {
            return ids[0];
        }
        let best = logit(ids[0]);
        let mut weights: Vec<f64> =
            ids.iter().map(|&id| ((logit(id) - best) / self.temperature).exp()).collect();
        if let Some(top_p) = self.top_p {
            let bound = top_p * weights.iter().sum::<f64>();
            let mut sum = 0.0;
            let kept = weights.iter().take_while(|&&weight| {
                let before = sum;
                sum += weight;
                before < bound
            });
            let kept = kept.count();
            weights.truncate(kept);
        }
        let mut at = random.sample() * weights.iter().sum::<f64>();
        for (id, weight) in ids.iter().zip(&weights) {
            at -= weight;
            if at < 0.0 {
                return *id;
            }
        }
        ids[weights.len() - 1]
    }
}

/// Continues `prompt`. Calls `piece` with each piece of text as soon as it consists of whole characters, and returns
/// all of the text without the prompt. The same arguments give the same text on the same device.
///
/// `model` must be without autodiff, as [`Module::valid`](burn::module::Module::valid) returns it. It sees at most
/// `seq_len` ids: when they are used up, the later half of them is read again and the rest forgotten.
///
/// # Errors
/// [`Error::Config`] for a setting out of range, [`Error::Tokenizer`] if the prompt cannot be encoded, [`Error::Train`]
/// if the device fails or the model gives numbers that are not finite, and the first error of `piece`, which ends the text.
pub fn generate(
    model: &Gpt,
    tokenizer: &dyn Tokenizer,
    prompt: &str,
    sampling: &Sampling,
    piece: impl FnMut(&str) -> Result<()>,
) -> Result<String> {
    let mut ids = sampling.begin.clone();
    tokenizer.encode(prompt, &mut ids).map_err(|problem| Error::tokenizer("of the prompt", problem))?;
    let context = if prompt.is_empty() { 0 } else { CONTEXT };
    if ids.is_empty() {
        ids.push(sampling.ends.first().copied().unwrap_or(0));
    }
    continued(model, tokenizer, ids, context, sampling, piece)
}

/// As [`generate`], after the ids of a prompt. There is at least one; `sampling.begin` is not put before them.
///
/// # Errors
/// As [`generate`].
pub fn generate_after(
    model: &Gpt,
    tokenizer: &dyn Tokenizer,
    prompt: Vec<u32>,
    sampling: &Sampling,
    piece: impl FnMut(&str) -> Result<()>,
) -> Result<String> {
    if prompt.is_empty() {
        return Err(Error::config("prompt", "it has no ids, and the model continues at least one"));
    }
    continued(model, tokenizer, prompt, CONTEXT, sampling, piece)
}

/// Continues `ids`, of which the last `context` are decoded with the first piece.
fn continued(
    model: &Gpt,
    tokenizer: &dyn Tokenizer,
    mut ids: Vec<u32>,
    context: usize,
    sampling: &Sampling,
    mut piece: impl FnMut(&str) -> Result<()>,
) -> Result<String> {
    sampling.validate()?;
    let device = model.embedding.val().device();
    let length = model.seq_len();
    let last = length.div_ceil(2);
    if ids.len() >= length {
        let has = ids.len();
        tracing::warn!(
            "the prompt has {has} ids, and the model sees {length} at once: it continues the last {last} of them"
        );
    }
    let mut random = Uniform::new(sampling.seed);
    let mut pieces = Pieces::new(ids.len(), context);
    let mut text = String::new();
    let mut add = |new: String| {
        text.push_str(&new);
        if new.is_empty() { Ok(()) } else { piece(&new) }
    };
    let mut cache = KeyValues::default();
    for _ in 0..sampling.tokens {
        if cache.len() == length {
            cache = KeyValues::default();
        }
        let unread = match cache.is_empty() {
            true if ids.len() >= length => &ids[ids.len() - last..],
            true => &ids[..],
            false => &ids[ids.len() - 1..],
        };
        let logits = model.next_logits(to_tensor(unread, &device), &mut cache);
        let logits = read(logits.cast(DType::F32).flatten(0, 1))?;
        if logits.iter().any(|logit| !logit.is_finite()) {
            let problem = "the model gives numbers that are not finite: its weights are damaged, or its run has diverged";
            return Err(Error::Train(problem.to_owned()));
        }
        let id = sampling.draw(&logits, &mut random);
        if sampling.ends.contains(&id) {
            break;
        }
        ids.push(id);
        add(pieces.next(tokenizer, &ids, false))?;
    }
    add(pieces.next(tokenizer, &ids, true))?;
    Ok(text)
}

fn to_tensor(ids: &[u32], device: &Device) -> Tensor<2, Int> {
    let values: Vec<i32> = ids.iter().map(|&id| id as i32).collect();
    Tensor::from_data(TensorData::new(values, [1, ids.len()]), device)
}

/// How many ids of the prompt are decoded with the first piece.
const CONTEXT: usize = 16;

/// Finds the text that each new id adds. An id may be less than a whole character, and its text may depend on the ids
/// before it: some decoders drop a space at the beginning. So decoding starts with the last whole piece, or before it
/// with the end of the prompt.
#[derive(Debug)]
struct Pieces {
    from: usize,
    done: usize,
}

impl Pieces {
    /// No piece yet, after `prompt` ids, the last of which are decoded with it, at most `before`.
    fn new(prompt: usize, before: usize) -> Self {
        Self { from: prompt.saturating_sub(before), done: prompt }
    }

    /// The text that `ids` add to the pieces before; empty while it ends within a character, unless it `is_last`.
    fn next(&mut self, tokenizer: &dyn Tokenizer, ids: &[u32], is_last: bool) -> String {
        let all = tokenizer.decode(&ids[self.from..]);
        if !is_last && all.ends_with(char::REPLACEMENT_CHARACTER) {
            return String::new();
        }
        let known = tokenizer.decode(&ids[self.from..self.done]);
        let same = all.bytes().zip(known.bytes()).take_while(|(a, b)| a == b).count();
        (self.from, self.done) = (self.done, ids.len());
        all[all.floor_char_boundary(same)..].to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream::tokenizer::{ByteTokenizer, EncodeError};

    fn sampling(temperature: f64, top_k: Option<usize>, top_p: Option<f64>) -> Sampling {
        Sampling { temperature, top_k, top_p, ..Sampling::default() }
    }

    #[test]
    fn top_k_of_one_and_temperature_zero_take_the_likeliest() {
        let logits = [0.5, 2.0, 2.0, -1.0];
        let mut random = Uniform::new(3);
        for _ in 0..20 {
            assert_eq!(sampling(5.0, Some(1), None).draw(&logits, &mut random), 1);
            assert_eq!(sampling(0.0, None, None).draw(&logits, &mut random), 1);
        }
    }

    #[test]
    fn draws_follow_the_probabilities_and_keep_to_top_k_and_top_p() {
        let logits = [0.0, 0.5f32.ln(), 0.25f32.ln(), f32::NEG_INFINITY];
        let shares = |sampling: Sampling| {
            let mut random = Uniform::new(11);
            let mut counts = [0; 4];
            (0..7000).for_each(|_| counts[sampling.draw(&logits, &mut random) as usize] += 1);
            counts.map(|count| f64::from(count) / 7000.0)
        };
        let all = shares(sampling(1.0, None, None));
        for (share, expected) in all.iter().zip([4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0, 0.0]) {
            assert!((share - expected).abs() < 0.02, "{all:?}");
        }
        assert_eq!(shares(sampling(1.0, Some(2), None))[2], 0.0);
        let nucleus = shares(sampling(1.0, None, Some(0.6)));
        assert!(nucleus[1] > 0.2 && nucleus[2] == 0.0, "{nucleus:?}");
        assert_eq!(shares(sampling(1.0, None, Some(0.1)))[0], 1.0);
    }

    #[test]
    fn pieces_are_whole_characters_and_make_up_the_text() {
        let ids: Vec<u32> = "xaé€z".bytes().chain([0xc3]).map(u32::from).collect();
        let mut pieces = Pieces::new(1, 0);
        let found: Vec<String> =
            (2..=ids.len()).map(|end| pieces.next(&ByteTokenizer, &ids[..end], false)).collect();
        assert_eq!(found, ["a", "", "é", "", "", "€", "z", ""]);
        assert_eq!(pieces.next(&ByteTokenizer, &ids, true), "\u{fffd}");
    }

    /// Words, each with a space before it, but for the first of a text: as tokenizers of the kind of Llama 2 decode.
    #[derive(Debug)]
    struct Words;

    impl Tokenizer for Words {
        fn encode(&self, text: &str, ids: &mut Vec<u32>) -> Result<(), EncodeError> {
            ids.extend(text.split(' ').filter_map(|word| word.parse::<u32>().ok()));
            Ok(())
        }

        fn decode(&self, ids: &[u32]) -> String {
            ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        }

        fn vocab_size(&self) -> usize {
            100
        }

        fn id(&self, _: &str) -> Option<u32> {
            None
        }

        fn fingerprint(&self) -> String {
            "words".to_owned()
        }
    }

    #[test]
    fn a_space_before_the_first_new_word_is_kept() {
        let ids = [7, 8, 9, 10];
        let all = |before| {
            let mut pieces = Pieces::new(2, before);
            (3..=ids.len()).map(|end| pieces.next(&Words, &ids[..end], false)).collect::<String>()
        };
        for before in [1, 2, CONTEXT] {
            assert_eq!(all(before), " 9 10", "after {before}");
        }
        assert_eq!(all(0), "9 10", "nothing was before");
    }
}
