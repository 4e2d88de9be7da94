//! The exchanges in hermesd-control(7) are true: what the client says there is said to a daemon, and what the daemon says
//! is compared.

use serde_json::Value;

use crate::support::{Home, Wire};

/// Who speaks, and the message.
fn exchanges(page: &str) -> Vec<(char, Value)> {
    let mut said: Vec<(char, String)> = Vec::new();
    for line in page.lines() {
        let line = line
            .replace("\\-", "-")
            .replace("\\[u2026]", "…")
            .replace("\\[u2014]", "—")
            .replace("\\e", "\\");
        if let Some(message) = line
            .strip_prefix("C: ")
            .map(|m| ('C', m))
            .or(line.strip_prefix("S: ").map(|m| ('S', m)))
        {
            said.push((message.0, message.1.to_owned()));
        } else if let (Some(more), Some((_, message))) =
            (line.strip_prefix("    "), said.last_mut())
            && !line.starts_with("     ")
        {
            message.push(' ');
            message.push_str(more);
        }
    }
    let parse = |(who, text): (char, String)| {
        let message = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
        (who, message)
    };
    said.into_iter().map(parse).collect()
}

/// The same but for what differs from day to day and from home to home.
fn alike(page: &Value, heard: &Value, key: &str) -> bool {
    match (page, heard) {
        (Value::Object(page), Value::Object(heard)) => {
            page.keys().eq(heard.keys())
                && page
                    .iter()
                    .all(|(key, value)| alike(value, &heard[key], key))
        }
        (Value::Array(page), Value::Array(heard)) => {
            page.len() == heard.len() && page.iter().zip(heard).all(|(p, h)| alike(p, h, key))
        }
        (Value::Number(_), Value::Number(_)) if key == "at" || key.ends_with("_at") => true,
        (Value::Number(_), Value::Number(_)) if matches!(key, "pid" | "seq") => true,
        (Value::String(_), Value::String(_)) if matches!(key, "home" | "session") => true,
        // The id of a session, not of a request or a handoff.
        (Value::String(_), Value::String(_)) if key == "id" => true,
        (page, heard) => page == heard,
    }
}

#[test]
fn the_exchanges_in_the_manual_are_true() {
    let page = include_str!("../man/hermesd-control.7");
    let home = Home::new();
    let daemon = home.start();
    let mut wire = Wire::connect(&home.socket());
    let exchanges = exchanges(page);
    assert!(exchanges.len() > 15, "{}", exchanges.len());
    for (who, message) in exchanges {
        if who == 'C' {
            wire.send(&format!("{message}\n"));
            continue;
        }
        let heard = wire.line().expect("an answer");
        assert!(
            alike(&message, &heard, ""),
            "the manual has\n{message}\nand the daemon says\n{heard}"
        );
    }
    assert!(daemon.stop().success());
}
