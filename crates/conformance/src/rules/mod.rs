//! The rules, one module per group. Each module is a list: adding a rule touches one file.

mod callbacks;
mod credits;
mod gss_chunk_use;
mod header;
mod iwarp;
pub(crate) mod loss_and_congestion;
pub(crate) mod memory_access;
mod nfs;
mod perf;
mod prelude;
mod private_data;
mod read_chunks;
mod reply_chunk;
mod rpc;
mod session_limits;
mod sessions;
mod write_chunks;

use crate::rule::Rule;

const GROUPS: [&[Rule]; 16] = [
    header::RULES,
    credits::RULES,
    private_data::RULES,
    read_chunks::RULES,
    write_chunks::RULES,
    reply_chunk::RULES,
    callbacks::RULES,
    memory_access::RULES,
    loss_and_congestion::RULES,
    iwarp::RULES,
    rpc::RULES,
    gss_chunk_use::RULES,
    sessions::RULES,
    session_limits::RULES,
    nfs::RULES,
    perf::RULES,
];

const COUNT: usize = {
    let (mut count, mut group) = (0, 0);
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

/// All rules, by group.
pub static RULES: [&Rule; COUNT] = {
    let mut rules: [&Rule; COUNT] = [&GROUPS[0][0]; COUNT];
    let (mut at, mut group) = (0, 0);
    while group < GROUPS.len() {
        let mut index = 0;
        while index < GROUPS[group].len() {
            rules[at] = &GROUPS[group][index];
            (at, index) = (at + 1, index + 1);
        }
        group += 1;
    }
    rules
};

/// Returns the rule with this id.
pub fn find_rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::severity::Severity;

    #[test]
    fn a_rule_of_severity_info_is_an_observation_and_an_error_is_none() {
        for rule in RULES {
            let is_observation = rule.requirement.starts_with("Observation: ");
            match rule.severity {
                Severity::Info => assert!(is_observation, "{}", rule.id),
                Severity::Error => assert!(!is_observation, "{}", rule.id),
                Severity::Warning => {}
            }
        }
    }

    #[test]
    fn the_rules_of_each_list_exist() {
        for id in memory_access::ACCESS_RULES.iter().chain(&loss_and_congestion::ENDS_CONNECTION) {
            assert!(RULES.iter().any(|rule| rule.id == *id), "{id}");
        }
    }
}
