//! The example `checksum`, from outside: the built program is run on small trees, and its output
//! is compared with what `sha256sum` promises and, where there is one, with what it says.

#[path = "../examples/checksum/escape.rs"]
mod escape;
mod example;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use sha2::{Digest, Sha256};

/// `sha256sum < /dev/null`.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
/// `printf abc | sha256sum`.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn a_plain_name_stands_for_itself() {
    assert_eq!(
        line("dir/a b*ü"),
        format!("{EMPTY}  dir/a b*ü\n").as_bytes()
    );
}

#[test]
fn an_odd_name_is_escaped_and_its_line_marked() {
    assert_eq!(line("a\nb"), format!("\\{EMPTY}  a\\nb\n").as_bytes());
    assert_eq!(line("a\rb"), format!("\\{EMPTY}  a\\rb\n").as_bytes());
    assert_eq!(line("a\\nb"), format!("\\{EMPTY}  a\\\\nb\n").as_bytes());
}

fn line(name: &str) -> Vec<u8> {
    let mut line = Vec::new();
    escape::push_line(&mut line, &Sha256::digest(b""), Path::new(name));
    line
}

#[test]
fn files_come_sorted_with_the_digests_of_their_content() {
    let tree = Tree::new();
    // More than one buffer, and no multiple of it.
    let large: Vec<u8> = (0..300_001u32).map(|i| i as u8).collect();
    tree.file("b/empty", b"");
    tree.file("b/large", &large);
    tree.file("a", b"abc");
    let run = run(Command::new(program()).arg("tree").current_dir(&tree.0));
    let large = hex(&Sha256::digest(&large));
    assert_eq!(
        text(&run.stdout),
        format!("{ABC}  tree/a\n{EMPTY}  tree/b/empty\n{large}  tree/b/large\n")
    );
    assert_clean(&run);
}

#[test]
fn every_strategy_and_number_of_workers_gives_the_same_list() {
    let tree = Tree::new();
    for i in 0..300 {
        tree.file(&format!("{}/{i}", i % 7), i.to_string().as_bytes());
    }
    let all = |options: &[&str]| {
        let run = run(checksum(&tree).args(options));
        assert_clean(&run);
        text(&run.stdout)
    };
    let list = all(&[]);
    assert_eq!(list.lines().collect::<BTreeSet<_>>().len(), 300);
    for strategy in ["round-robin", "least-busy"] {
        for workers in ["1", "2", "5"] {
            assert_eq!(
                all(&["--quiet", "--strategy", strategy, "--workers", workers]),
                list
            );
        }
    }
}

#[test]
fn a_file_as_argument_is_hashed_itself() {
    let tree = Tree::new();
    let file = tree.file("f", b"abc");
    let run = run(Command::new(program()).arg(&file));
    assert_eq!(text(&run.stdout), format!("{ABC}  {}\n", file.display()));
    assert_clean(&run);
}

#[test]
fn a_file_called_dash_does_not_read_as_standard_input() {
    let tree = Tree::new();
    tree.file("-", b"abc");
    let run = run(Command::new(program()).arg("-").current_dir(tree.path()));
    assert_eq!(
        text(&run.stdout),
        format!("{ABC}  {}\n", Path::new(".").join("-").display())
    );
}

#[test]
fn a_missing_directory_fails_and_the_others_are_done() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let missing = tree.0.join("missing");
    let run = run(Command::new(program()).arg(&missing).arg(tree.path()));
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stdout).starts_with(ABC), "{run:?}");
    assert_one_complaint(&run, &missing);
}

#[test]
fn bad_usage_is_refused() {
    let tree = Tree::new();
    let bad = [
        ["--workers", "0"],
        ["--strategy", "best"],
        ["--concurrency", "0"],
    ];
    for options in bad {
        let run = run(checksum(&tree).args(options));
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{run:?}");
    }
    assert_eq!(run(&mut Command::new(program())).status.code(), Some(2));
}

#[test]
fn side_by_side_the_lines_are_the_same_and_each_directory_keeps_its_order() {
    let tree = three_directories();
    let listed = |options: &[&str]| {
        let run = run(Command::new(program())
            .args(["large", "small", "small/7"])
            .args(options)
            .current_dir(tree.path()));
        assert_clean(&run);
        text(&run.stdout)
    };
    let list = listed(&[]);
    assert_eq!(list.lines().count(), 500 + 50 + 1);
    let options: [&[&str]; 4] = [
        &["--concurrency", "1", "--workers", "1"],
        &["--concurrency", "2", "--workers", "2"],
        &["--concurrency", "9", "--weight", "small=3"],
        &[
            "--concurrency=2",
            "--weight=large/=2",
            "--weight=small/7=4294967295",
        ],
    ];
    for options in options {
        let mingled = listed(options);
        assert_eq!(sorted(&mingled), sorted(&list), "{options:?}");
        for directory in ["large/", "small/"] {
            let (own, expected) = (below(&mingled, directory), below(&list, directory));
            assert_eq!(own, expected, "{options:?}");
        }
    }
}

#[test]
fn the_shards_together_are_the_whole_list() {
    let tree = three_directories();
    let listed = |options: &[&str]| {
        let run = run(Command::new(program())
            .args(["large", "small", "small/7"])
            .args(options)
            .current_dir(tree.path()));
        assert_clean(&run);
        text(&run.stdout)
    };
    let whole = listed(&[]);
    for count in [1, 2, 3, 8] {
        for options in [&[][..], &["--concurrency=2"]] {
            let shards = (1..=count).map(|index| {
                let shard = format!("--shard={index}/{count}");
                listed(&[&[&*shard], options].concat())
            });
            let shards: Vec<_> = shards.collect();
            // As often as in the whole list: so no two shards have a file in common.
            assert_eq!(sorted(&shards.concat()), sorted(&whole), "{count} shards");
            for shard in &shards {
                let size = shard.lines().count() * count;
                assert!(
                    (400..700).contains(&size),
                    "one of {count} is {size}/{count}"
                );
                let own = below(shard, "large/");
                let mut in_order = below(&whole, "large/");
                in_order.retain(|name| own.contains(name));
                assert_eq!(own, in_order);
            }
        }
    }
}

#[test]
fn a_files_shard_follows_from_its_path_alone() {
    let tree = Tree::new();
    let names: Vec<_> = (0..40).map(|i| format!("{i}")).collect();
    for name in &names {
        tree.file(name, b"abc");
    }
    // `printf %s ./0 | sha256sum` and so on: the first eight bytes, modulo 3.
    let expected = |name: &&String| {
        let digest = Sha256::digest(format!("./{name}").as_bytes());
        u64::from_be_bytes(digest[..8].try_into().unwrap()) % 3 == 1
    };
    let mut expected: Vec<_> = names.iter().filter(expected).collect();
    expected.sort();
    let second = run(Command::new(program())
        .args(["--shard", "2/3", "."])
        .current_dir(tree.path()));
    let listed = text(&second.stdout);
    let listed: Vec<_> = listed.lines().map(|line| &line[68..]).collect();
    assert_eq!(listed, expected);
}

#[test]
fn every_shard_reports_what_it_cannot_read() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let missing = tree.0.join("missing");
    for shard in ["1/2", "2/2"] {
        let run = run(checksum(&tree).args(["--shard", shard]).arg(&missing));
        assert_eq!(run.status.code(), Some(1));
        assert_one_complaint(&run, &missing);
    }
}

type Variables<'a> = &'a [(&'a str, &'a str)];

/// What a scheduler tells the task of that number.
type TaskVariables<'a> = &'a dyn Fn(usize) -> Vec<(String, String)>;

/// Runs one process of an array on `tree`, with those variables and no others that say a shard.
fn run_in_array<V: AsRef<OsStr> + Clone>(
    tree: &Tree,
    variables: &[(V, V)],
    options: &[&str],
) -> Output {
    let mut command = checksum(tree);
    for name in ["ID", "COUNT", "MIN", "MAX"] {
        command.env_remove(format!("SLURM_ARRAY_TASK_{name}"));
    }
    command.env_remove("JOB_COMPLETION_INDEX");
    run(command.envs(variables.iter().cloned()).args(options))
}

#[test]
fn an_array_of_any_scheduler_does_the_whole() {
    let tree = Tree::new();
    for i in 0..30 {
        tree.file(&format!("{i}"), b"abc");
    }
    let whole = text(&run_in_array::<&str>(&tree, &[], &[]).stdout);
    let slurm = |first: usize, task: usize| {
        let variables = [
            ("ID", first + task),
            ("COUNT", 3),
            ("MIN", first),
            ("MAX", first + 2),
        ];
        variables.map(|(name, value)| (format!("SLURM_ARRAY_TASK_{name}"), value.to_string()))
    };
    let kubernetes = |task: usize| ("JOB_COMPLETION_INDEX".to_owned(), task.to_string());
    let arrays: [(TaskVariables<'_>, &[&str]); 4] = [
        (&|task| slurm(0, task).into(), &[]),
        (&|task| slurm(1, task).into(), &[]),
        (&|task| slurm(17, task).into(), &[]),
        (&|task| vec![kubernetes(task)], &["--shard=/3"]),
    ];
    for (variables, options) in arrays {
        let mut listed = String::new();
        for task in 0..3 {
            let variables = variables(task);
            let run = run_in_array(&tree, &variables, options);
            assert!(run.status.success(), "{run:?}");
            assert!(text(&run.stderr).contains(" of 3, by "), "{run:?}");
            listed += &text(&run.stdout);
        }
        assert_eq!(sorted(&listed), sorted(&whole));
    }
}

#[test]
fn the_option_goes_before_the_environment() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let array = [
        ("SLURM_ARRAY_TASK_ID", "1"),
        ("SLURM_ARRAY_TASK_COUNT", "2"),
    ];
    let whole = run_in_array(&tree, &array, &["--shard=1/1"]);
    assert!(text(&whole.stdout).starts_with(ABC), "{whole:?}");
    assert_clean(&whole);
}

#[test]
fn a_shard_that_cannot_be_is_refused() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let id = ("SLURM_ARRAY_TASK_ID", "3");
    let count = ("SLURM_ARRAY_TASK_COUNT", "2");
    let ends = [("SLURM_ARRAY_TASK_MIN", "1"), ("SLURM_ARRAY_TASK_MAX", "3")];
    let bad: [(Variables<'_>, &[&str]); 14] = [
        (&[], &["--shard=0/2"]),
        (&[], &["--shard=3/2"]),
        (&[], &["--shard=1/0"]),
        (&[], &["--shard=+1/2"]),
        (&[], &["--shard=1"]),
        (&[], &["--shard=a/2"]),
        // Nobody says which one.
        (&[], &["--shard=/2"]),
        // Nobody says of how many.
        (&[id], &[]),
        (&[("JOB_COMPLETION_INDEX", "0")], &[]),
        // They contradict each other.
        (&[id, count], &["--shard=/3"]),
        (&[("JOB_COMPLETION_INDEX", "2")], &["--shard=/2"]),
        // Tasks 1 and 3 of an array with a step of 2 would be one and the same shard.
        (&[id, count, ends[0], ends[1]], &[]),
        (&[("SLURM_ARRAY_TASK_ID", ""), count], &[]),
        (&[("SLURM_ARRAY_TASK_ID", "-1"), count], &[]),
    ];
    for (variables, options) in bad {
        let run = run_in_array(&tree, variables, options);
        assert_eq!(
            run.status.code(),
            Some(2),
            "{variables:?} {options:?} {run:?}"
        );
        assert!(run.stdout.is_empty() && !run.stderr.is_empty(), "{run:?}");
    }
}

/// `large`, of more than one batch, and `small`.
fn three_directories() -> Tree {
    let tree = Tree::new();
    for i in 0..500 {
        tree.file(&format!("large/{i}"), i.to_string().as_bytes());
    }
    for i in 0..50 {
        tree.file(&format!("small/{i}"), b"abc");
    }
    tree
}

fn sorted(list: &str) -> Vec<&str> {
    let mut lines: Vec<_> = list.lines().collect();
    lines.sort_unstable();
    lines
}

/// The names below `directory`, in order, but for the file that is given by itself as well: it is
/// listed twice, and the other one may come anywhere.
fn below<'a>(list: &'a str, directory: &str) -> Vec<&'a str> {
    let names = list.lines().map(|line| &line[66..]);
    names
        .filter(|name| name.starts_with(directory) && *name != "small/7")
        .collect()
}

#[test]
fn side_by_side_a_missing_directory_fails_and_the_others_are_done() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let missing = tree.0.join("missing");
    let run = run(Command::new(program())
        .args(["--concurrency", "1"])
        .arg(&missing)
        .arg(tree.path()));
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stdout).starts_with(ABC), "{run:?}");
    assert_one_complaint(&run, &missing);
}

#[test]
fn a_weight_needs_a_directory_a_number_and_a_limit() {
    let tree = Tree::new();
    let file = tree.file("a=b", b"abc");
    let with_weight = |options: &[&str]| {
        run(Command::new(program())
            .arg("a=b")
            .args(options)
            .current_dir(tree.path()))
    };
    let bad = [
        ("other=1", "not one of the DIRs"),
        ("a=1", "not one of the DIRs"),
        ("a=b", "from 1 to 4294967295"),
        ("a=b=", "from 1 to 4294967295"),
        ("a=b=-1", "from 1 to 4294967295"),
        ("a=b=4294967296", "from 1 to 4294967295"),
        ("a=b=0", "1 is the least"),
        ("ab", "DIR=N is needed"),
    ];
    for (weight, complaint) in bad {
        let run = with_weight(&["--concurrency", "1", "--weight", weight]);
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stdout.is_empty(), "{run:?}");
        let said = text(&run.stderr);
        assert!(said.contains(weight) && said.contains(complaint), "{said}");
    }
    assert_eq!(with_weight(&["--weight", "a=b=1"]).status.code(), Some(2));
    let good = with_weight(&["--concurrency", "1", "--weight", "a=b=2"]);
    assert_clean(&good);
    let name = Path::new(file.file_name().unwrap());
    assert_eq!(text(&good.stdout), format!("{ABC}  {}\n", name.display()));
}

#[test]
fn output_goes_to_a_file_that_does_not_list_itself() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let sums = tree.file(
        "SUMS",
        b"left over from an earlier run, and longer than what replaces it. "
            .repeat(9)
            .as_slice(),
    );
    let run = run(checksum(&tree).arg("--output").arg(&sums));
    assert!(run.stdout.is_empty(), "{run:?}");
    assert_clean(&run);
    let listed = fs::read_to_string(&sums).unwrap();
    assert_eq!(
        listed,
        format!("{ABC}  {}\n", tree.path().join("f").display())
    );
}

#[test]
fn an_output_that_cannot_be_opened_is_fatal() {
    let tree = Tree::new();
    tree.file("f", b"abc");
    let sums = tree.0.join("missing").join("SUMS");
    let run = run(checksum(&tree).arg("--output").arg(&sums));
    assert_eq!(run.status.code(), Some(2));
    assert_one_complaint(&run, &sums);
}

#[cfg(unix)]
mod unix {
    use std::ffi::OsStr;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::process::{Child, ChildStderr, ChildStdout};

    use super::*;

    #[test]
    fn odd_names_pass_sha256sum() {
        let tree = Tree::new();
        tree.file("new\nline", b"1");
        tree.file("back\\slash", b"2");
        tree.file("\\n", b"3");
        tree.file(" * blanks ", b"4");
        if gnu_escapes_carriage_return(&tree) {
            tree.file("return\r", b"5");
        }
        // Not every file system takes a name that is no UTF-8.
        let raw = tree.path().join(OsStr::from_bytes(b"raw\xff\xfe\n"));
        let raw_taken = fs::write(raw, b"6").is_ok();
        let run = run(&mut checksum(&tree));
        assert_clean(&run);
        assert!(
            !raw_taken || contains(&run.stdout, b"raw\xff\xfe\\n\n"),
            "{run:?}"
        );
        assert_sha256sum_agrees(&run.stdout, if raw_taken { 5 } else { 4 });
    }

    #[test]
    fn links_and_sockets_are_passed_over_below_a_root() {
        let tree = Tree::new();
        let file = tree.file("f", b"abc");
        symlink(&file, tree.path().join("link")).unwrap();
        symlink(tree.path(), tree.path().join("loop")).unwrap();
        // A socket's path has to be short: where the build lies too deep, there is none.
        let _socket = UnixListener::bind(tree.path().join("s"));
        let run = run(&mut checksum(&tree));
        assert_eq!(text(&run.stdout), format!("{ABC}  {}\n", file.display()));
        assert_clean(&run);
    }

    #[test]
    fn a_root_may_be_a_link_and_must_be_something_to_read() {
        let tree = Tree::new();
        tree.file("f", b"abc");
        let link = tree.0.join("link");
        symlink(tree.path(), &link).unwrap();
        let run = run(Command::new(program())
            .arg(&link)
            .arg(link.join("f"))
            .arg("/dev/null"));
        let listed = format!("{ABC}  {}\n", link.join("f").display());
        assert_eq!(text(&run.stdout), listed.repeat(2));
        assert_eq!(run.status.code(), Some(1));
        assert_one_complaint(&run, Path::new("/dev/null"));
    }

    #[test]
    fn what_cannot_be_read_is_named_once_and_the_others_are_done() {
        let tree = Tree::new();
        tree.file("a", b"abc");
        let closed = [tree.file("closed", b"secret"), tree.path().join("shut")];
        fs::create_dir(&closed[1]).unwrap();
        closed.iter().for_each(|path| set_mode(path, 0o000));
        let superuser = fs::File::open(&closed[0]).is_ok();
        let run = run(&mut checksum(&tree));
        set_mode(&closed[1], 0o700);
        if superuser {
            return;
        }
        assert_eq!(
            text(&run.stdout),
            format!("{ABC}  {}\n", tree.path().join("a").display())
        );
        assert_eq!(run.status.code(), Some(1));
        assert_eq!(text(&run.stderr).lines().count(), 2, "{run:?}");
    }

    /// A regular file that opens and does not read, for the superuser too.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_read_that_fails_is_named() {
        let tree = Tree::new();
        tree.file("a", b"abc");
        let run = run(Command::new(program())
            .arg("/proc/self/mem")
            .arg(tree.path()));
        assert!(text(&run.stdout).starts_with(ABC), "{run:?}");
        assert_eq!(run.status.code(), Some(1));
        assert_one_complaint(&run, Path::new("/proc/self/mem"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_fatal() {
        let tree = Tree::new();
        tree.file("a", b"abc");
        let run = run(checksum(&tree).args(["--output", "/dev/full"]));
        assert_eq!(run.status.code(), Some(2));
        assert_one_complaint(&run, Path::new("/dev/full"));
    }

    #[test]
    fn standard_output_in_a_file_is_not_listed_either() {
        let tree = Tree::new();
        tree.file("f", b"abc");
        let sums = tree.path().join("SUMS");
        let status = checksum(&tree)
            .stdout(fs::File::create(&sums).unwrap())
            .status()
            .unwrap();
        assert!(status.success());
        let listed = format!("{ABC}  {}\n", tree.path().join("f").display());
        assert_eq!(fs::read_to_string(&sums).unwrap(), listed);
    }

    #[test]
    fn a_reader_that_has_enough_ends_it_quietly() {
        let mut running = Running::start();
        assert!(running.read_line().starts_with(EMPTY));
        drop(running.stdout.take());
        assert_eq!(running.child.wait().unwrap().code(), Some(0));
        assert_eq!(running.rest_of_stderr(), "");
    }

    #[test]
    fn a_reader_that_has_gone_does_not_wait_for_the_file_at_hand() {
        let tree = endless_tree();
        assert_quiet(&run(checksum(&tree).stdout(pipe_without_reader())));
    }

    #[test]
    fn side_by_side_it_does_not_wait_for_the_other_directorys_file_either() {
        let tree = endless_tree();
        let mut command = side_by_side(&tree, "2", &["a", "b"]);
        assert_quiet(&run(command.stdout(pipe_without_reader())));
    }

    fn assert_quiet(run: &Output) {
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        assert_eq!(text(&run.stderr), "");
    }

    /// A pipe whose reader has gone already: the first line that is written meets nobody, however
    /// late or early it comes.
    fn pipe_without_reader() -> Stdio {
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        pipe.into()
    }

    #[test]
    fn an_interrupt_finishes_what_runs_and_counts() {
        let mut running = Running::start();
        assert!(running.read_line().starts_with(EMPTY));
        running.interrupt();
        let listed = 1 + running.stdout.take().unwrap().lines().count();
        assert_eq!(running.child.wait().unwrap().code(), Some(130));
        assert!(listed < Running::FILES, "the interrupt stopped nothing");
        let said = running.rest_of_stderr();
        assert!(
            said.contains(&format!("{listed} files done")),
            "{listed} listed, but: {said}"
        );
        assert!(said.contains(" not done"), "{said}");
    }

    #[test]
    fn a_second_interrupt_ends_it_at_once() {
        // The first one may be so early that the large file is not begun, and then none is
        // needed: that run shows nothing.
        let ended = (0..10).find(|_| second_interrupt_is_needed());
        assert!(
            ended.is_some(),
            "the large file was never begun, or was finished"
        );
    }

    #[test]
    fn a_small_directory_is_done_long_before_a_large_one() {
        // A tree that takes minutes, a job a file: however late the small directory's thread gets
        // to its first job, the large one's is nowhere near its end.
        let tree = Tree::new();
        for i in 0..Running::FILES {
            tree.sparse(&format!("large/{i:0>5}"), 1 << 22);
        }
        for i in 0..100 {
            tree.file(&format!("small/{i}"), b"abc");
        }
        let mut command = side_by_side(&tree, "1", &["large", "small"]);
        let mut running = Running::run(&mut command, tree);
        let mut left = 100;
        let mut before = 0;
        while left > 0 {
            let line = running.read_line();
            assert!(!line.is_empty(), "ended with {left} to go");
            let is_small = line.contains("  small/");
            left -= usize::from(is_small);
            before += usize::from(!is_small);
        }
        running.interrupt();
        let listed = 100 + before + running.stdout.take().unwrap().lines().count();
        assert_eq!(running.child.wait().unwrap().code(), Some(130));
        assert!(listed < Running::FILES, "the large one was through as well");
        let said = running.rest_of_stderr();
        assert!(said.contains(&format!("{listed} files done")), "{said}");
    }

    fn side_by_side(tree: &Tree, workers: &str, roots: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(["--workers", workers, "--concurrency", workers])
            .args(roots)
            .current_dir(tree.path());
        command
    }

    /// Interrupts twice while a file is hashed that takes minutes. False if the second came too
    /// late to matter.
    fn second_interrupt_is_needed() -> bool {
        let mut running = Running::spawn(endless_tree());
        assert!(running.read_line().ends_with("/a\n"));
        running.interrupt();
        running.signal();
        assert_eq!(running.child.wait().unwrap().code(), Some(130));
        running.rest_of_stderr().is_empty()
    }

    /// A file `a` and one `b` that takes minutes, each large enough to be a job of its own. The
    /// second has no blocks on the disk.
    fn endless_tree() -> Tree {
        let tree = Tree::new();
        tree.file("a", &[0; 1 << 20]);
        tree.sparse("b", 1 << 38);
        tree
    }

    /// The program at work, with pipes to it.
    struct Running {
        child: Child,
        stdout: Option<BufReader<ChildStdout>>,
        stderr: BufReader<ChildStderr>,
        _tree: Tree,
    }

    impl Running {
        const FILES: usize = 6_000;

        /// On a tree whose list is far larger than a pipe holds: until the test reads on, it
        /// cannot come to its end. No clock is needed to interrupt it half-way.
        fn start() -> Self {
            let tree = Tree::new();
            for i in 0..Self::FILES {
                tree.file(&format!("{i:0>140}"), b"");
            }
            Self::spawn(tree)
        }

        fn spawn(tree: Tree) -> Self {
            Self::run(&mut checksum(&tree), tree)
        }

        fn run(command: &mut Command, tree: Tree) -> Self {
            let mut child = command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let stdout = child.stdout.take().map(BufReader::new);
            let stderr = BufReader::new(child.stderr.take().unwrap());
            Self {
                child,
                stdout,
                stderr,
                _tree: tree,
            }
        }

        fn read_line(&mut self) -> String {
            let mut line = String::new();
            self.stdout.as_mut().unwrap().read_line(&mut line).unwrap();
            line
        }

        /// Interrupts, and waits until the program has noticed.
        fn interrupt(&mut self) {
            self.signal();
            let mut notice = String::new();
            self.stderr.read_line(&mut notice).unwrap();
            assert!(notice.contains("finishing"), "{notice}");
        }

        fn signal(&self) {
            let kill = format!("kill -INT {}", self.child.id());
            assert!(
                Command::new("sh")
                    .args(["-c", &kill])
                    .status()
                    .unwrap()
                    .success()
            );
        }

        fn rest_of_stderr(&mut self) -> String {
            let mut rest = String::new();
            self.stderr.read_to_string(&mut rest).unwrap();
            rest
        }
    }

    impl Drop for Running {
        /// Only after a failed assertion is there something left to end.
        fn drop(&mut self) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn contains(bytes: &[u8], part: &[u8]) -> bool {
        bytes.windows(part.len()).any(|window| window == part)
    }

    /// Since coreutils 9.0; what came before neither writes nor reads that escape.
    fn gnu_escapes_carriage_return(tree: &Tree) -> bool {
        let probe = tree.0.join("probe\r");
        fs::write(&probe, b"").unwrap();
        let listed = Command::new("sha256sum").arg(&probe).output();
        listed.is_ok_and(|output| output.stdout.starts_with(b"\\"))
    }

    /// Feeds the list to `sha256sum -c`, or passes where there is none.
    fn assert_sha256sum_agrees(list: &[u8], at_least: usize) {
        let mut command = Command::new("sha256sum");
        command
            .args(["-c", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            return;
        };
        child.stdin.take().unwrap().write_all(list).unwrap();
        let checked = child.wait_with_output().unwrap();
        assert!(checked.status.success(), "{checked:?}");
        let good = checked
            .stdout
            .split(|&byte| byte == b'\n')
            .filter(|line| line.ends_with(b": OK"));
        assert!(good.count() >= at_least, "{checked:?}");
        assert!(checked.stderr.is_empty(), "{checked:?}");
    }
}

/// A directory of its own for one test, with the subdirectory `tree` to be walked.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let unique = format!(
            "{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("checksum")
            .join(unique);
        // A process of the same number may have left something behind.
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("tree")).unwrap();
        Self(root)
    }

    fn path(&self) -> PathBuf {
        self.0.join("tree")
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A file of zeroes that takes no room on the disk.
    #[cfg(unix)]
    fn sparse(&self, name: &str, size: u64) {
        let path = self.file(name, b"");
        let file = fs::OpenOptions::new().write(true).open(path).unwrap();
        file.set_len(size).unwrap();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Built once a process.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = PROGRAM.get_or_init(|| example::built("checksum"));
    built.as_deref().unwrap_or_else(|why| panic!("{why}"))
}

fn checksum(tree: &Tree) -> Command {
    let mut command = Command::new(program());
    command.arg(tree.path());
    command
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn assert_clean(run: &Output) {
    assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
}

fn assert_one_complaint(run: &Output, about: &Path) {
    let complaint = text(&run.stderr);
    assert_eq!(complaint.lines().count(), 1, "{complaint}");
    assert!(complaint.contains(&format!("{about:?}")), "{complaint}");
}
