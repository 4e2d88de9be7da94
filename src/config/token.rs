//! Recognises placeholders where a token belongs.

/// Words that examples have in place of a token.
const WORDS: [&str; 9] = [
    "changeme",
    "dummy",
    "example",
    "none",
    "null",
    "placeholder",
    "token",
    "xxxx",
    "your",
];

/// Prefixes of placeholders such as `your-token` and `your_api_key_here`.
const BEGINNINGS: [&str; 3] = ["your-", "your_", "your "];

/// Shorter texts are placeholders.
const SHORTEST: usize = 4;

pub(super) fn is_placeholder(token: &str) -> bool {
    let token = token.trim().to_ascii_lowercase();
    token.chars().count() < SHORTEST
        || WORDS.contains(&&*token)
        || BEGINNINGS.iter().any(|word| token.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_told_from_tokens() {
        for word in [
            "***",
            "abc",
            " 1:x ",
            "changeme",
            "CHANGEME",
            "your-token",
            "Your_API_key_here",
            "none",
            "placeholder",
            "example",
            "dummy",
            "null",
        ] {
            assert!(is_placeholder(word), "{word}");
        }
        for token in ["12345:abc", "abcd", "xoxb-1", "yours", "nonesuch", "1:xy"] {
            assert!(!is_placeholder(token), "{token}");
        }
    }
}
