//! hermesd-control(7) is true: what the client says in its exchanges is said to a daemon and what the daemon says is
//! compared, and each method answers with the fields that the page promises.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{Home, SESSION, TITLE, Wire, seed_session};

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
    let page = include_str!("../../man/hermesd-control.7");
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

/// The fields of each object of the page, and whether each may be missing.
fn objects(page: &str) -> BTreeMap<String, BTreeMap<String, bool>> {
    let mut objects: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    let mut current = None;
    for line in page.lines() {
        if line.starts_with(".S") {
            let name = line
                .strip_prefix(".SS \"")
                .and_then(|rest| rest.strip_suffix(" object\""));
            current = name.map(|name| name.replace("\\-", "-"));
        } else if let (Some(object), Some(field)) = (&current, line.strip_prefix(".BR ")) {
            let (name, kind) = field.split_once(' ').expect("a field and its kind");
            let fields = objects.entry(object.clone()).or_default();
            fields.insert(name.to_owned(), kind.contains("may be missing"));
        }
    }
    objects
}

/// What the page says that a method answers with: an object, and whether it is a list of them.
fn result(page: &str, method: &str) -> Option<(String, bool)> {
    let section = page
        .split(&format!("\n.SS {method}\n"))
        .nth(1)
        .expect("a section");
    let text = section.split("\nResult: ").nth(1).expect("a result");
    let text = text
        .split("\n.")
        .next()
        .unwrap_or_default()
        .replace('\n', " ");
    let name = text.split("\\fB\\%").nth(1)?.split("\\fP object").next()?;
    let is_object = text.contains("\\fP object");
    is_object.then(|| (name.replace("\\-", "-"), text.contains("list of")))
}

#[tokio::test]
async fn methods_answer_with_the_fields_that_the_manual_promises() {
    let page = include_str!("../../man/hermesd-control.7");
    let objects = objects(page);
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let mut wire = Wire::greeted(&home.socket());
    let mut asked = BTreeSet::new();
    for (method, params) in [
        (
            "hello",
            json!({"client": "test", "version": "0", "protocol": 1}),
        ),
        ("status", json!({})),
        ("metrics", json!({})),
        ("config.reload", json!({})),
        ("platform.examine", json!({"platform": "local"})),
        ("platform.list", json!({})),
        ("agent.list", json!({})),
        ("agent.test", json!({"agent": "echo"})),
        ("session.list", json!({})),
        ("session.show", json!({"session": SESSION})),
        ("session.transcript", json!({"session": TITLE, "last": 2})),
        ("session.search", json!({"words": ["parser"]})),
        (
            "session.rename",
            json!({"session": TITLE, "title": "Other"}),
        ),
        (
            "handoff.request",
            json!({"platform": "local", "session": SESSION}),
        ),
        ("handoff.wait", json!({"id": 1})),
        ("handoff.list", json!({})),
        ("handoff.show", json!({"id": 1})),
        ("local.threads", json!({})),
        ("local.read", json!({"thread": 1})),
        ("local.say", json!({"thread": 1, "text": "hello"})),
        ("session.resume", json!({})),
        ("chat.open", json!({"session": SESSION})),
        ("chat.say", json!({"text": "and here"})),
        ("chat.stop", json!({})),
        ("chat.leave", json!({})),
        ("events.subscribe", json!({"topics": ["platform"]})),
        ("pair.list", json!({})),
    ] {
        // A turn in the thread may hold the session for a moment.
        let answer = crate::support::until(method, || {
            let answer = wire.call(method, params.clone());
            (answer["error"]["data"]["kind"] != "turn_in_progress").then_some(answer)
        });
        let found = &answer["result"];
        assert!(!found.is_null(), "{method}: {answer}");
        asked.insert(method);
        let Some((name, list)) = result(page, method) else {
            assert!(found.is_object(), "{method}: {found}");
            continue;
        };
        let promised = objects
            .get(&name)
            .unwrap_or_else(|| panic!("no {name} object"));
        assert_eq!(found.is_array(), list, "{method}: {found}");
        let some = if list {
            found.as_array().unwrap().clone()
        } else {
            vec![found.clone()]
        };
        for one in some {
            let fields: BTreeSet<&String> = one.as_object().expect("an object").keys().collect();
            let unknown: Vec<_> = fields
                .iter()
                .filter(|f| !promised.contains_key(**f))
                .collect();
            let missing = promised
                .iter()
                .filter(|(f, may)| !**may && !fields.contains(f));
            let missing: Vec<_> = missing.map(|(field, _)| field).collect();
            assert!(
                unknown.is_empty() && missing.is_empty(),
                "{method}: unknown {unknown:?}, missing {missing:?}"
            );
        }
    }
    // These need somebody at a bot, a question of an agent's, or a failure; they answer with what others here do.
    let rest = [
        "pair.approve",
        "pair.revoke",
        "chat.answer",
        "handoff.cancel",
        "handoff.retry",
    ];
    asked.extend(rest);
    assert_eq!(asked, hermesd::protocol::METHODS.into_iter().collect());
    assert!(daemon.stop().success());
}

/// SECURITY.md says which test shows what. A test that is renamed or gone shows nothing.
#[test]
fn every_test_that_the_page_on_security_names_is_there() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("SECURITY.md")).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| "));
    let shown = rows.filter_map(|row| row.trim_end_matches(" |").rsplit(" | ").next());
    let source = |module: &str| root.join(format!("tests/{}.rs", module.replace("::", "/")));
    let mut named = 0;
    for cell in shown {
        let mut file = "";
        // Between backticks is every second piece. What follows a file's name in a cell is in the same file.
        for name in cell.split('`').skip(1).step_by(2) {
            let (of, test) = match name.rsplit_once("::") {
                Some((of, test)) if source(of).exists() => (of, Some(test)),
                _ if source(name).exists() => (name, None),
                None if !file.is_empty() => (file, Some(name)),
                _ => continue,
            };
            file = of;
            let text = std::fs::read_to_string(source(file)).unwrap();
            let found = test.is_none_or(|test| text.contains(&format!("fn {test}(")));
            assert!(found, "{name} is not in {}", source(file).display());
            named += 1;
        }
    }
    assert!(named > 30, "only {named} tests are named");
}
