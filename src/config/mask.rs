//! Masks passwords and tokens inside of addresses and command lines, so that settings can be shown.

const MASK: &str = "********";

/// Names whose values are secret: `PARTS` also as a part of a longer name, `WORDS` only as whole words.
const PARTS: [&str; 9] = [
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passw",
    "secret",
    "token",
];
const WORDS: [&str; 8] = [
    "key",
    "keys",
    "pass",
    "pat",
    "psk",
    "pwd",
    "sig",
    "signature",
];

/// Prefixes of the tokens of well-known services.
const TOKENS: [&str; 13] = [
    "AIza",
    "AKIA",
    "eyJ",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "hf_",
    "sk-",
    "xapp-",
    "xoxb-",
    "xoxp-",
];
const SHORTEST_TOKEN: usize = 16;

/// The text without its secrets.
pub(super) fn masked(text: &str) -> String {
    rejoin(words_of(text), text)
}

fn words_of(text: &str) -> Vec<String> {
    // An open quote has no end, so blanks separate the words.
    let split = || text.split_whitespace().map(str::to_owned).collect();
    shlex::split(text).unwrap_or_else(split)
}

/// The words with their secrets masked. A text without secrets stays unchanged.
fn rejoin(words: Vec<String>, text: &str) -> String {
    let shown = mask_words(&words);
    if shown == words {
        return text.to_owned();
    }
    let quoted = shown.iter().map(|word| {
        let quoted = shlex::try_quote(word).map(std::borrow::Cow::into_owned);
        match word.contains(MASK) && !word.contains(char::is_whitespace) {
            true => word.clone(),
            false => quoted.unwrap_or_else(|_| MASK.to_owned()),
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}

fn mask_words(words: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(words.len());
    // Whether the word before names this value.
    let mut is_value = false;
    for word in words {
        let name = word.trim_start_matches('-').trim_end_matches(':');
        let names_value = (word.starts_with('-') || word.ends_with(':') || name == "Bearer")
            && !word.contains('=')
            && is_secret_name(name);
        shown.push(match is_value && !names_value {
            true => MASK.to_owned(),
            false => mask_word(word),
        });
        is_value = names_value;
    }
    shown
}

fn mask_word(word: &str) -> String {
    if let Some((name, value)) = word.split_once('=')
        && !value.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.\"'".contains(c))
        && is_secret_name(name)
    {
        return format!("{name}={MASK}");
    }
    // A command within a command, or a header.
    if word.contains(char::is_whitespace) {
        let words = words_of(word);
        let shown = mask_words(&words);
        return match shown == words {
            true => word.to_owned(),
            false => shown.join(" "),
        };
    }
    if let Some((scheme, rest)) = word.split_once("://") {
        // An assignment of an address, or a flag with one.
        let (name, scheme) = match scheme.rsplit_once('=') {
            Some((name, scheme)) => (format!("{name}="), scheme),
            None => (String::new(), scheme),
        };
        return format!("{name}{scheme}://{}", mask_address(rest));
    }
    mask_token(word)
}

/// Masks the part of an address behind `://`.
fn mask_address(address: &str) -> String {
    let end = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (host, rest) = address.split_at(end);
    let host = match host.rsplit_once('@') {
        Some((_, host)) => format!("{MASK}@{host}"),
        None => host.to_owned(),
    };
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let path: Vec<String> = path.split('/').map(mask_token).collect();
    let mut shown = format!("{host}{}", path.join("/"));
    if !query.is_empty() {
        let values = query.split('&').map(|pair| match pair.split_once('=') {
            Some((name, _)) if is_secret_name(name) => format!("{name}={MASK}"),
            _ => mask_token(pair),
        });
        shown.push('?');
        shown.push_str(&values.collect::<Vec<_>>().join("&"));
    }
    shown
}

/// Masks a word that has the form of a token.
fn mask_token(word: &str) -> String {
    let begins = |token: &&str| word.starts_with(*token) && word.len() >= SHORTEST_TOKEN;
    let bare = word.trim_start_matches("bot");
    let is_bot = bare.split_once(':').is_some_and(|(id, token)| {
        id.len() >= 6 && id.bytes().all(|b| b.is_ascii_digit()) && token.len() >= SHORTEST_TOKEN
    });
    match is_bot || TOKENS.iter().any(begins) {
        true => MASK.to_owned(),
        false => word.to_owned(),
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    PARTS.iter().any(|part| name.contains(part))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_inside_of_a_value_are_not_shown() {
        for (text, expected) in [
            (
                "https://me:pa@ss@host:8080/v1",
                "https://********@host:8080/v1",
            ),
            (
                "https://host/v1?api_key=abc&model=x",
                "https://host/v1?api_key=********&model=x",
            ),
            (
                "https://host/bot123456789:AAabcdefghijklmnop/",
                "https://host/********/",
            ),
            ("postgres://u:p@h/db", "postgres://********@h/db"),
            ("env API_TOKEN=abc run", "env API_TOKEN=******** run"),
            ("env TOKEN='a b' run", "env TOKEN=******** run"),
            (
                "env DATABASE_URL=postgres://u:p@h/db run",
                "env DATABASE_URL=postgres://********@h/db run",
            ),
            (
                "agent --api-key abc --fast",
                "agent --api-key ******** --fast",
            ),
            ("agent --token=abc", "agent --token=********"),
            ("agent -c sk-proj-0123456789abcdef", "agent -c ********"),
            (
                "curl -H 'Authorization: Bearer abc' x",
                "curl -H 'Authorization: Bearer ********' x",
            ),
            ("sh -c 'PASSWORD=abc run --x'", "sh -c PASSWORD=********"),
            (
                "sh -c 'run --x PASSWORD=\"a b\"'",
                "sh -c 'run --x PASSWORD=********'",
            ),
            ("run TOKEN=\"abc", "run TOKEN=********"),
            ("run \"TOKEN=abc", "run \"TOKEN=********"),
        ] {
            assert_eq!(masked(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_secret_stays_as_it_was_written() {
        for text in [
            "",
            "info",
            "http://127.0.0.1:8080/v1?model=x",
            "my-agent --acp  --model \"a b\" --keyboard us",
            "/home/u/monkey/run",
            "an open \"quote",
            "sk-short",
            "user@example.org",
        ] {
            assert_eq!(masked(text), text);
        }
    }
}
