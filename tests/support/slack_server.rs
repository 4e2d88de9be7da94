//! The fake Slack as a program, for clients of other languages. It prints one line of JSON with its addresses and names, and
//! one for each command that it reads from its input:
//!
//! - `say CHANNEL USER TEXT`, `reply CHANNEL TS USER TEXT`, `press CHANNEL TS USER BUTTON`, `run CHANNEL USER COMMAND [TEXT]`
//! - `leave REASON`: asks all clients to leave, for `warning` or `refresh_requested`
//! - `drop`: closes all connections
//! - `state CHANNEL`: what the bot has written there, what only one person sees, and how things stand with Socket Mode
//! - `revoke`: revokes the bot's token
//!
//! It ends with its input.

#![allow(unreachable_pub)] // a program has no outside

// The suite uses all of what this program uses a part of.
#[allow(dead_code, unused_imports)]
#[path = "."]
mod support {
    pub mod fake;
    pub mod slack;

    /// See the suite.
    pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);
}

use std::io::{BufRead, Write};

use serde_json::{Value, json};

use support::slack::{ADA, APP_TOKEN, BEN, Person, Reason, Slack, TEAM, TOKEN};

fn person(id: &str) -> &'static Person {
    match id {
        id if id == ADA.id => &ADA,
        id if id == BEN.id => &BEN,
        _ => panic!("nobody is {id}"),
    }
}

fn state(slack: &Slack, channel: &str) -> Value {
    let messages = slack.bot_messages(channel).into_iter().map(|message| {
        json!({
            "ts": message.ts,
            "thread_ts": message.thread_ts,
            "text": message.text,
            "files": message.files,
            "edits": message.edits,
        })
    });
    let messages: Vec<Value> = messages.collect();
    let seen = slack.ephemerals(channel).into_iter();
    let seen: Vec<Value> = seen
        .map(|one| json!({"to": one.to, "text": one.text}))
        .collect();
    let attempts: Vec<usize> = slack.acknowledged().iter().map(|ack| ack.attempt).collect();
    json!({
        "messages": messages,
        "ephemerals": seen,
        "connections": slack.connections(),
        "acknowledged": attempts,
        "unanswered": slack.unanswered().len(),
        "strays": slack.strays(),
    })
}

/// Does a command. Gives what it has to tell.
fn perform(slack: &Slack, line: &str) -> Value {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let parts = |count: usize| {
        let mut parts: Vec<&str> = rest.splitn(count, ' ').collect();
        parts.resize(count, "");
        parts
    };
    match name {
        "say" => {
            let parts = parts(3);
            json!(slack.says(parts[0], person(parts[1]), parts[2]))
        }
        "reply" => {
            let parts = parts(4);
            json!(slack.replies(parts[0], parts[1], person(parts[2]), parts[3]))
        }
        "press" => {
            let parts = parts(4);
            slack.presses(parts[0], parts[1], person(parts[2]), parts[3]);
            Value::Null
        }
        "run" => {
            let parts = parts(4);
            slack.runs(parts[0], person(parts[1]), parts[2], parts[3]);
            Value::Null
        }
        "leave" => {
            slack.asks_to_leave(match rest {
                "warning" => Reason::Warning,
                "refresh_requested" => Reason::RefreshRequested,
                _ => panic!("no reason {rest}"),
            });
            Value::Null
        }
        "drop" => {
            slack.drops_connections();
            Value::Null
        }
        "state" => state(slack, rest),
        "revoke" => {
            slack.revokes_token();
            Value::Null
        }
        _ => panic!("no command {line}"),
    }
}

fn main() {
    let slack = Slack::start();
    let channel = slack.public_channel("general");
    let tell = |value: Value| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{value}")
            .and_then(|()| out.flush())
            .expect("a reader");
    };
    tell(json!({
        "api": slack.api_url(),
        "token": TOKEN,
        "app_token": APP_TOKEN,
        "team": TEAM,
        "bot": slack.bot_user(),
        "channel": channel,
        "direct": slack.direct(&ADA),
        "ada": ADA.id,
        "ben": BEN.id,
    }));
    for line in std::io::stdin().lock().lines() {
        tell(perform(&slack, line.expect("a line").trim()));
    }
}
