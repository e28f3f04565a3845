# Completion of nfsrdma-inspect in fish. The program itself says what may come next (src/cli/completion.rs).

function __nfsrdma_inspect_complete
    set -l words (commandline -opc)
    # A quote that is open is not a part of the word.
    set -l current (commandline -ct | string replace -r '^[\'"]' '')
    set -l before ''
    for line in (env NFSRDMA_INSPECT_COMPLETE=words $words "$current" 2>/dev/null)
        switch $line
            case \tfolders
                __fish_complete_directories "$current"
            case \tfiles\t\*
                set -l suffixes (string split -n ' ' (string replace \tfiles\t '' $line))
                # After --option= the name of the file is the rest of the word.
                set -l start $current
                if set -l found (string match -r '^(-[^=]*=)(.*)$' -- $current)
                    set before $found[2]
                    set start $found[3]
                end
                set -l files (__nfsrdma_inspect_files "$start" $suffixes)
                for file in $files
                    echo $before$file
                end
            case '*'
                echo $line
        end
    end
end

# Files and directories that begin so: those with one of the suffixes, or all where none has one.
function __nfsrdma_inspect_files
    set -l all (complete -C "__nfsrdma_inspect_no_command $argv[1]" | string replace -r '\t.*' '')
    set -l named
    set -l folders
    for file in $all
        if string match -q '*/' -- $file
            set -a folders $file
            continue
        end
        for suffix in $argv[2..-1]
            if string match -q "*$suffix" -- $file
                set -a named $file
                break
            end
        end
    end
    if set -q named[1]
        printf '%s\n' $named $folders
    else if set -q all[1]
        printf '%s\n' $all
    end
end

complete -c nfsrdma-inspect -f -k -a '(__nfsrdma_inspect_complete)'
