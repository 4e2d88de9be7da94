//! Measures the length of a text as a platform counts it.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// UTF-16 code units.
    Utf16,
    /// Unicode code points.
    Chars,
    /// Bytes of UTF-8.
    Bytes,
}

impl Measure {
    pub fn length(self, text: &str) -> usize {
        match self {
            Measure::Utf16 => text.chars().map(char::len_utf16).sum(),
            Measure::Chars => text.chars().count(),
            Measure::Bytes => text.len(),
        }
    }

    /// Reads no more of the text than it has to.
    pub(super) fn fits(self, text: &str, longest: usize) -> bool {
        self.start_of(text, longest).len() == text.len()
    }

    /// The longest start of the text that fits.
    pub(super) fn start_of(self, text: &str, longest: usize) -> &str {
        let mut length = 0;
        let end = text.char_indices().find(|(_, c)| {
            length += self.length_of(*c);
            length > longest
        });
        end.map_or(text, |(at, _)| &text[..at])
    }

    /// The length of the longest character.
    pub(super) fn longest_character(self) -> usize {
        self.length_of(char::MAX)
    }

    fn length_of(self, c: char) -> usize {
        match self {
            Measure::Utf16 => c.len_utf16(),
            Measure::Chars => 1,
            Measure::Bytes => c.len_utf8(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measure_counts_its_own_units() {
        let text = "aé字🎉";
        assert_eq!(Measure::Utf16.length(text), 5);
        assert_eq!(Measure::Chars.length(text), 4);
        assert_eq!(Measure::Bytes.length(text), 10);
    }

    #[test]
    fn a_start_never_ends_within_a_character() {
        let text = "aé字🎉b";
        assert_eq!(Measure::Utf16.start_of(text, 4), "aé字");
        assert_eq!(Measure::Chars.start_of(text, 4), "aé字🎉");
        assert_eq!(Measure::Bytes.start_of(text, 9), "aé字");
        assert_eq!(Measure::Bytes.start_of(text, 99), text);
        assert!(Measure::Bytes.fits(text, 11));
        assert!(!Measure::Bytes.fits(text, 10));
    }

    #[test]
    fn no_character_is_longer_than_the_longest() {
        assert_eq!(Measure::Utf16.longest_character(), 2);
        assert_eq!(Measure::Chars.longest_character(), 1);
        assert_eq!(Measure::Bytes.longest_character(), 4);
    }
}
