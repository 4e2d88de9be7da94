//! What the control socket says to those who speak to it: JSON-RPC 2.0, one object a line.

use serde_json::{Value, json};

use crate::support::{Home, SESSION, Wire, hello, request, seed_session, until};

const MAX_FRAME: usize = 1 << 20;

#[tokio::test]
async fn answers_are_json_rpc_and_carry_the_id_of_their_request() {
    let home = Home::new();
    seed_session(&home).await;
    let daemon = home.start();
    let mut wire = Wire::connect(&home.socket());
    wire.send(&format!("{}\n", hello(7)));
    let answer = wire.line().unwrap();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert_eq!(answer["id"], 7);
    assert_eq!(answer["result"]["server"], "hermesd");
    assert_eq!(answer["result"]["protocol"], 1);
    assert_eq!(answer["result"]["pid"], daemon.pid());
    assert_eq!(
        answer["result"]["home"].as_str(),
        home.path().canonicalize().unwrap().to_str()
    );

    for id in [json!("a word"), json!(-3), json!(1.5), Value::Null] {
        wire.send(&request(
            id.clone(),
            "session.show",
            json!({"session": SESSION}),
        ));
        let answer = wire.line().unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        assert_eq!(answer["result"]["id"], SESSION, "{answer}");
        assert!(answer.get("error").is_none(), "{answer}");
    }
}

#[tokio::test]
async fn nothing_is_answered_before_a_hello_of_the_right_protocol() {
    let home = Home::new();
    let _daemon = home.start();
    let mut wire = Wire::connect(&home.socket());
    let refused = wire.call("status", json!({}));
    assert_eq!(refused["error"]["code"], -32002);
    let message = refused["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("hello") && message.contains("\"protocol\": 1"),
        "{message}"
    );

    for (protocol, hint) in [
        (0, "upgrade the client to the version of the daemon"),
        (99, "upgrade the daemon to the version of the client"),
    ] {
        let wish = json!({"client": "t", "version": "0", "protocol": protocol});
        let refused = wire.call("hello", wish);
        assert_eq!(refused["error"]["code"], -32000, "{refused}");
        assert_eq!(refused["error"]["data"]["kind"], "protocol");
        assert_eq!(refused["error"]["data"]["hint"], hint);
        assert_eq!(wire.call("status", json!({}))["error"]["code"], -32002);
    }
    let wish = json!({"client": "t", "version": "0", "protocol": 1});
    assert_eq!(wire.ask("hello", wish)["server"], "hermesd");
    assert_eq!(wire.ask("status", json!({}))["agent"], "echo");
}

#[tokio::test]
async fn every_malformed_request_gets_its_code_and_the_connection_goes_on() {
    let home = Home::new();
    let _daemon = home.start();
    let mut wire = Wire::greeted(&home.socket());
    let cases: [(&str, i64, Value); 14] = [
        ("nonsense", -32700, Value::Null),
        (r#"{"jsonrpc":"2.0","id":1"#, -32700, Value::Null),
        (r#"[]"#, -32600, Value::Null),
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"status"}]"#,
            -32600,
            Value::Null,
        ),
        ("3", -32600, Value::Null),
        (r#"{"id":1,"method":"status"}"#, -32600, json!(1)),
        (
            r#"{"jsonrpc":"1.0","id":2,"method":"status"}"#,
            -32600,
            json!(2),
        ),
        (
            r#"{"jsonrpc":"2.0","id":{},"method":"status"}"#,
            -32600,
            Value::Null,
        ),
        (
            r#"{"jsonrpc":"2.0","id":3,"method":"dance"}"#,
            -32601,
            json!(3),
        ),
        (r#"{"jsonrpc":"2.0","id":4}"#, -32601, json!(4)),
        (
            r#"{"jsonrpc":"2.0","id":5,"method":"handoff.show"}"#,
            -32602,
            json!(5),
        ),
        (
            r#"{"jsonrpc":"2.0","id":6,"method":"handoff.show","params":{"id":"x"}}"#,
            -32602,
            json!(6),
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":"status","params":{"no":1}}"#,
            -32602,
            json!(7),
        ),
        (
            r#"{"jsonrpc":"2.0","id":8,"method":"handoff.show","params":{"id":12345}}"#,
            -32001,
            json!(8),
        ),
    ];
    for (line, code, id) in cases {
        wire.send(&format!("{line}\n"));
        let answer = wire.line().unwrap();
        assert_eq!(answer["error"]["code"], code, "{line} → {answer}");
        assert_eq!(answer["id"], id, "{line} → {answer}");
        assert_eq!(answer["jsonrpc"], "2.0", "{line} → {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(!message.is_empty(), "{line} → {answer}");
    }
    // Empty lines and a carriage return are nobody's fault.
    wire.send("\n  \r\n");
    wire.send("{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"status\"}\r\n");
    assert_eq!(wire.line().unwrap()["result"]["agent"], "echo");
}

#[tokio::test]
async fn a_request_without_an_id_is_done_and_not_answered() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let mut wire = Wire::greeted(&home.socket());
    for quiet in [
        json!({"jsonrpc": "2.0", "method": "status"}),
        json!({"jsonrpc": "2.0", "method": "dance"}),
        json!({"jsonrpc": "2.0", "method": "handoff.show", "params": {"id": "x"}}),
        json!({"jsonrpc": "2.0", "method": "handoff.request", "params": {"platform": "local", "session": SESSION}}),
    ] {
        wire.send(&format!("{quiet}\n"));
    }
    wire.send(&request(json!("last"), "status", json!({})));
    wire.half_close();
    assert_eq!(wire.line().unwrap()["id"], "last");
    assert_eq!(wire.line(), None);
    // The one that asks for something was done all the same.
    let mut other = Wire::greeted(&home.socket());
    until("the handoff completes", || {
        let all = other.ask("handoff.list", json!({}));
        (all[0]["state"] == "completed").then_some(())
    });
}

#[tokio::test]
async fn a_hundred_requests_sent_ahead_all_get_their_own_answer() {
    let home = Home::new();
    let _daemon = home.start();
    let mut wire = Wire::connect(&home.socket());
    let mut all = format!("{}\n", hello(0));
    for n in 1..=100 {
        all.push_str(&request(
            json!(format!("r{n}")),
            "handoff.show",
            json!({"id": n}),
        ));
    }
    wire.send(&all);
    wire.half_close();
    assert_eq!(wire.line().unwrap()["result"]["server"], "hermesd");
    let mut answered: Vec<u64> = Vec::new();
    while let Some(answer) = wire.line() {
        let n: u64 = answer["id"].as_str().unwrap()[1..].parse().unwrap();
        assert_eq!(
            answer["error"]["message"],
            format!("there is no handoff {n}")
        );
        answered.push(n);
    }
    answered.sort_unstable();
    assert_eq!(answered, (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_line_of_exactly_the_longest_length_is_taken_and_one_more_byte_is_not() {
    let home = Home::new();
    let _daemon = home.start();
    for (length, taken) in [(MAX_FRAME, true), (MAX_FRAME + 1, false)] {
        let mut wire = Wire::greeted(&home.socket());
        let mut line = request(json!(1), "status", json!({}));
        line.insert_str(line.len() - 1, &" ".repeat(length + 1 - line.len()));
        let _ = wire.try_send(line.as_bytes());
        let answer = wire.line().unwrap();
        assert_eq!(answer.get("result").is_some(), taken, "{length}: {answer}");
        if !taken {
            assert_eq!(answer["error"]["code"], -32600, "{answer}");
            assert_eq!(wire.line(), None);
        }
    }
}

/// What a subscriber hears up to the end of one handoff of [`SESSION`]: the stages by their names, the rest by its type.
fn heard_of_one_handoff(wire: &mut Wire) -> Vec<String> {
    let mut heard: Vec<String> = Vec::new();
    let mut last = 0;
    let mut id = None;
    while heard.last().map(String::as_str) != Some("handoff.ended") {
        let line = wire.line().unwrap();
        assert_eq!(line["method"], "event", "{line}");
        assert!(line.get("id").is_none(), "{line}");
        let event = &line["params"];
        assert!(event["seq"].as_u64().unwrap() > last, "{line}");
        last = event["seq"].as_u64().unwrap();
        let name = event["type"].as_str().unwrap();
        match name {
            "handoff.stage" => heard.push(event["stage"].as_str().unwrap().to_owned()),
            name => heard.push(name.to_owned()),
        }
        if name.starts_with("handoff") {
            assert_eq!(
                event["id"],
                *id.get_or_insert(event["id"].clone()),
                "{line}"
            );
            assert_eq!(event["session"], SESSION, "{line}");
        }
    }
    heard
}

const ONE_HANDOFF: [&str; 10] = [
    "handoff.requested",
    "claimed",
    "homed",
    "threaded",
    "bound",
    "turn.ended",
    "answered",
    "delivered",
    "settled",
    "handoff.ended",
];

#[tokio::test]
async fn a_subscriber_hears_what_it_asked_for_in_order_and_nothing_else() {
    let home = Home::new();
    seed_session(&home).await;
    let _daemon = home.start();
    let mut wire = Wire::greeted(&home.socket());
    wire.ask(
        "events.subscribe",
        json!({"topics": ["handoff", "turn.ended"]}),
    );
    Wire::greeted(&home.socket()).hand_off();
    assert_eq!(heard_of_one_handoff(&mut wire), ONE_HANDOFF);
    // Another program's request is told like one of our own.
    home.sqlite()
        .execute(
            "UPDATE sessions SET handoff_state = 'pending', handoff_platform = 'local'",
            [],
        )
        .unwrap();
    assert_eq!(heard_of_one_handoff(&mut wire), ONE_HANDOFF);
}
