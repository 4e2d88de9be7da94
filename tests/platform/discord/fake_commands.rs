//! The fake Discord: where commands can be used and by whom, and the finer rules of their answers.

use serde_json::{Value, json};

use super::fake::{Client, INTENTS, call, done, errors_in};
use crate::support::discord::permissions::{
    ADMINISTRATOR, EVERYONE, MANAGE_CHANNELS, USE_APPLICATION_COMMANDS,
};
use crate::support::discord::{ADA, APPLICATION_ID, Discord};

fn world() -> (Discord, u64, u64, String) {
    let discord = Discord::start();
    let guild = discord.guild("Work");
    let general = discord.text_channel(guild, "general");
    let global = format!("/applications/{APPLICATION_ID}/commands");
    (discord, guild, general, global)
}

#[tokio::test]
async fn the_places_of_a_command_are_checked() {
    let (discord, guild, _, global) = world();
    let local = format!("/applications/{APPLICATION_ID}/guilds/{guild}/commands");
    let with = |key: &str, value: Value| {
        let mut command = json!({"name": "a", "description": "a"});
        command[key] = value;
        command
    };
    for (key, wrong) in [
        ("contexts", json!([3])),
        ("contexts", json!([])),
        ("integration_types", json!([2])),
        ("default_member_permissions", json!(8)),
        ("default_member_permissions", json!("many")),
        ("dm_permission", json!("no")),
        ("nsfw", json!(1)),
    ] {
        let errors = errors_in(&discord, "POST", &global, with(key, wrong.clone())).await;
        assert_eq!(errors, [key], "{wrong}");
    }
    for key in ["contexts", "integration_types"] {
        let errors = errors_in(&discord, "POST", &local, with(key, json!([0]))).await;
        assert_eq!(errors, [key]);
    }
    let all = json!({
        "name": "a", "description": "a", "contexts": [0, 1], "integration_types": [0],
        "default_member_permissions": "16",
    });
    let shown = done(&discord, "POST", &global, all.clone()).await;
    for key in [
        "contexts",
        "integration_types",
        "default_member_permissions",
    ] {
        assert_eq!(shown[key], all[key], "{key}");
    }
}

#[tokio::test]
async fn options_have_values_and_depths_that_fit() {
    let (discord, _, _, global) = world();
    let with = |option: Value| json!({"name": "a", "description": "a", "options": [option]});
    let choices = |kind: u8, value: Value| {
        let choices = json!([{"name": "c", "value": value}]);
        with(json!({"type": kind, "name": "b", "description": "a", "choices": choices}))
    };
    let nested = |kind: u8, inner: Value| json!({"type": kind, "name": "b", "description": "a", "options": [inner]});
    let text = json!({"type": 3, "name": "b", "description": "a"});
    let cases = [
        (choices(3, json!(1)), "options.0.choices.0.value"),
        (
            choices(3, json!("v".repeat(101))),
            "options.0.choices.0.value",
        ),
        (choices(4, json!("one")), "options.0.choices.0.value"),
        (choices(5, json!(true)), "options.0.choices.0"),
        (
            with(nested(2, nested(2, text.clone()))),
            "options.0.options.0.type",
        ),
        (
            with(nested(1, nested(1, nested(1, text.clone())))),
            "options.0.options.0.options.0.type",
        ),
    ];
    for (command, wrong) in cases {
        let errors = errors_in(&discord, "POST", &global, command.clone()).await;
        assert_eq!(errors[0], wrong, "{command}");
    }
    done(&discord, "POST", &global, with(nested(2, nested(1, text)))).await;
    done(&discord, "POST", &global, choices(4, json!(1))).await;
    let long = json!({"type": 3, "name": "b", "description": "d".repeat(100)});
    let option = |n: usize| {
        let mut option = long.clone();
        option["name"] = json!(format!("o{n}"));
        option["choices"] = json!(
            (0..3)
                .map(|_| json!({"name": "n".repeat(50), "value": "v".repeat(50)}))
                .collect::<Vec<_>>()
        );
        option
    };
    let options: Vec<Value> = (0..25).map(option).collect();
    let large = json!({"name": "a", "description": "a", "options": options});
    let (status, body) = call(&discord, "POST", &global, large).await;
    assert_eq!((status, &body["code"]), (400, &json!(50035)), "{body}");
}

#[tokio::test]
async fn a_command_is_offered_where_it_may_be_used() {
    let (discord, guild, general, global) = world();
    let direct = discord.direct(&ADA);
    let mut command = json!({"name": "say", "description": "a"});
    for (key, value, in_guild, in_direct) in [
        ("nsfw", json!(false), true, true),
        ("contexts", json!([0]), true, false),
        ("contexts", json!([1]), false, true),
        ("dm_permission", json!(false), true, false),
        ("default_member_permissions", json!("16"), false, true),
        ("default_member_permissions", json!("0"), false, true),
    ] {
        let mut command = command.clone();
        command[key] = value.clone();
        done(&discord, "PUT", &global, json!([command])).await;
        let offered = (
            discord.offers(&ADA, general, "say"),
            discord.offers(&ADA, direct, "say"),
        );
        assert_eq!(offered, (in_guild, in_direct), "{key} {value}");
    }
    command["default_member_permissions"] = json!("16");
    done(&discord, "PUT", &global, json!([command])).await;
    let role = discord.role(guild, "Managers", MANAGE_CHANNELS);
    discord.gives_role(guild, ADA.id, role);
    assert!(discord.offers(&ADA, general, "say"));
    command["default_member_permissions"] = json!("0");
    done(&discord, "PUT", &global, json!([command])).await;
    assert!(!discord.offers(&ADA, general, "say"));
    discord.permits(guild, role, ADMINISTRATOR);
    assert!(discord.offers(&ADA, general, "say"));
    discord.permits(guild, role, 0);
    command["default_member_permissions"] = Value::Null;
    done(&discord, "PUT", &global, json!([command])).await;
    discord.permits(guild, guild, EVERYONE & !USE_APPLICATION_COMMANDS);
    assert!(!discord.offers(&ADA, general, "say"));
    // A command of a guild is nowhere else.
    done(&discord, "PUT", &global, json!([])).await;
    let local = format!("/applications/{APPLICATION_ID}/guilds/{guild}/commands");
    command["name"] = json!("here");
    done(&discord, "PUT", &local, json!([command])).await;
    assert!(!discord.offers(&ADA, direct, "here"));
}

#[tokio::test]
async fn the_first_message_after_thinking_takes_its_place() {
    let (discord, _, general, global) = world();
    let command = json!({"name": "say", "description": "a"});
    done(&discord, "POST", &global, command).await;
    let (mut client, _) = Client::identified(&discord, INTENTS).await;
    discord.runs(general, &ADA, "say", &[]);
    let event = client.until_event("INTERACTION_CREATE").await;
    let (id, token) = (&event["d"]["id"], &event["d"]["token"]);
    let (id, token) = (id.as_str().unwrap(), token.as_str().unwrap());
    let callback = format!("/interactions/{id}/{token}/callback?with_response=true");
    let (status, told) = call(&discord, "POST", &callback, json!({"type": 5})).await;
    assert_eq!(status, 200);
    assert_eq!(told["interaction"]["response_message_loading"], true);
    let hook = format!("/webhooks/{APPLICATION_ID}/{token}");
    // Nobody said whom it may mention, so it mentions users alone.
    let words = format!("<@{}> @everyone", ADA.id);
    done(&discord, "POST", &hook, json!({"content": words})).await;
    done(&discord, "POST", &hook, json!({"content": "second"})).await;
    let said = discord.messages_in(general);
    assert_eq!(said.len(), 2, "{said:?}");
    assert_eq!(
        (
            &told["interaction"]["response_message_id"],
            said[0].content.as_str()
        ),
        (&json!(said[0].id.to_string()), words.as_str())
    );
    assert_eq!(said[0].notified, [format!("user {}", ADA.id)]);
}
