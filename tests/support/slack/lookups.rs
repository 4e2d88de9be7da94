//! Who is who: `auth.test`, `bots.info`, `users.*`, `team.info`.

use serde_json::{Value, json};

use super::errors::Answered;
use super::pages::page;
use super::request::Call;
use super::world::{User, World};
use super::{APP_ID, BOT_NAME};

pub fn auth_test(world: &World, call: &Call) -> Answered {
    let team = &world.teams[&call.team];
    let mut answer = json!({
        "url": format!("https://{}.slack.com/", team.domain),
        "team": team.name,
        "user": BOT_NAME,
        "team_id": team.id,
        "user_id": team.bot_user,
        "bot_id": team.bot_id,
        "is_enterprise_install": false,
    });
    if let Some((id, _)) = &team.enterprise {
        answer["enterprise_id"] = id.as_str().into();
    }
    Ok(answer)
}

pub fn bots_info(world: &World, call: &Call) -> Answered {
    let bot = call.filled("bot").ok_or("bot_not_found")?;
    let mut users = world.users.iter();
    let found = users.find(|(_, u)| u.team == call.team && u.bot_id.as_ref() == Some(&bot));
    let (id, user) = found.ok_or("bot_not_found")?;
    let is_own = *id == world.teams[&call.team].bot_user;
    let app = if is_own { APP_ID } else { "A0OTHERAPP" };
    Ok(json!({"bot": {
        "id": bot,
        "deleted": user.deleted,
        "name": user.name,
        "updated": 1,
        "app_id": app,
        "user_id": id,
        "icons": {},
        "team_id": user.team,
    }}))
}

fn user_value(id: &str, user: &User) -> Value {
    let mut profile = json!({
        "real_name": user.real_name,
        "real_name_normalized": user.real_name,
        "display_name": user.name,
        "display_name_normalized": user.name,
        "team": user.team,
    });
    if let Some(bot) = &user.bot_id {
        profile["bot_id"] = bot.as_str().into();
        profile["api_app_id"] = APP_ID.into();
    }
    json!({
        "id": id,
        "team_id": user.team,
        "name": user.name,
        "deleted": user.deleted,
        "real_name": user.real_name,
        "tz": "Europe/London",
        "tz_label": "Greenwich Mean Time",
        "tz_offset": 0,
        "profile": profile,
        "is_admin": false,
        "is_owner": false,
        "is_primary_owner": false,
        "is_restricted": false,
        "is_ultra_restricted": false,
        "is_bot": user.bot_id.is_some(),
        "is_app_user": false,
        "updated": 1,
    })
}

pub fn users_info(world: &World, call: &Call) -> Answered {
    let id = call.need("user")?;
    let user = world.users.get(&id).filter(|u| u.team == call.team);
    let user = user.ok_or("user_not_found")?;
    Ok(json!({"user": user_value(&id, user)}))
}

pub fn users_list(world: &World, call: &Call) -> Answered {
    let limit = call.limit(1000, 1000)?;
    let users = world.users.iter().filter(|(_, u)| u.team == call.team);
    let mut users = users.map(|(id, user)| (id.clone(), user_value(id, user)));
    let (members, next) = page(&mut users, call, "user", limit)?;
    Ok(json!({
        "members": members,
        "cache_ts": super::world::seconds(),
        "response_metadata": {"next_cursor": next},
    }))
}

pub fn team_info(world: &World, call: &Call) -> Answered {
    let id = call.filled("team").unwrap_or(call.team.clone());
    let team = world.teams.get(&id).filter(|team| team.id == call.team);
    let team = team.ok_or("team_not_found")?;
    let mut value = json!({
        "id": team.id,
        "name": team.name,
        "url": format!("https://{}.slack.com/", team.domain),
        "domain": team.domain,
        "email_domain": "",
        "icon": {"image_default": true},
    });
    if let Some((id, name)) = &team.enterprise {
        value["enterprise_id"] = id.as_str().into();
        value["enterprise_name"] = name.as_str().into();
    }
    Ok(json!({"team": value}))
}
