# Completion of nfsrdma-inspect in bash 4.4 and later. The program itself says what may come next (src/cli/completion.rs).

_nfsrdma_inspect() {
    local line value suffix file rest
    local -a files
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
        $'\tfolders')
            compopt -o filenames
            mapfile -t COMPREPLY < <(compgen -d -- "$2")
            ;;
        $'\tfiles\t'*)
            mapfile -t files < <(compgen -f -- "$2")
            rest=()
            for file in "${files[@]}"; do
                if [[ -d $file ]]; then
                    rest+=("$file")
                    continue
                fi
                for suffix in ${line#$'\tfiles\t'}; do
                    if [[ $file == *"$suffix" ]]; then
                        rest+=("$file")
                        break
                    fi
                done
            done
            # Where no name ends so, or where any will do, all are offered.
            local -a named=()
            for file in "${rest[@]}"; do [[ -d $file ]] || named+=("$file"); done
            [[ ${#named[@]} -gt 0 ]] || rest=("${files[@]}")
            if [[ ${#rest[@]} -gt 0 ]]; then
                compopt -o filenames
                COMPREPLY+=("${rest[@]}")
            fi
            ;;
        *)
            value=${line%%$'\t'*}
            # More is to be typed after these.
            case $value in *[=:./]) compopt -o nospace ;; esac
            COMPREPLY+=("$value")
            ;;
        esac
    done < <(NFSRDMA_INSPECT_COMPLETE=line "$1" "${COMP_LINE:0:COMP_POINT}" "${2#[=:]}" 2>/dev/null)
}

complete -F _nfsrdma_inspect nfsrdma-inspect
