(ns arrowwood.types-test
  "Tests that values of all types are read and written, compared with what the Rust library reads; and that the table of
  types in docs/tasks/clojure.md is right."
  (:require
   [arrowwood.canonical-json :refer [encode encode-rows fields value-type]]
   [arrowwood.core :as aw]
   [arrowwood.programs :as programs]
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is]])
  (:import
   (clojure.lang BigInt)
   (dev.arrowwood ArrowwoodException$InvalidArgument ArrowwoodException$Unsupported Chunk Schema)
   (dev.arrowwood.types Field Type$Binary Type$Date Type$Decimal Type$Dictionary Type$Duration Type$FixedBinary Type$FixedList Type$Floating Type$Int Type$Interval Type$Layout Type$ListLayout Type$ListOf Type$MapOf Type$RunEndEncoded Type$Struct Type$Text Type$Time Type$Timestamp Type$Union)
   (java.io File)
   (java.lang.foreign MemorySegment)
   (java.nio.file Files LinkOption Path)))

(defn- distinct-names?
  "Returns true if fields, and the members of each struct below them, have different names."
  [fields]
  (and (apply distinct? nil (map #(.name ^Field %) fields))
       (every? (fn [^Field field]
                 (let [type (value-type (.type field))]
                   (condp instance? type
                     Type$Struct (distinct-names? (.members ^Type$Struct type))
                     Type$ListOf (distinct-names? [(.item ^Type$ListOf type)])
                     true)))
               fields)))

(defn- encode-columns
  "Encodes the rows of a dataset, read column by column."
  [ds]
  (let [columns (mapv (fn [column ^Field field] (mapv #(encode % (.type field)) column))
                      (aw/columns ds)
                      (fields ds))]
    (mapv (fn [row] (mapv #(nth % row) columns))
          (range (aw/row-count ds)))))

(defn- encode-cells
  "Encodes the rows of a dataset, read cell by cell."
  [ds]
  (let [columns (aw/columns ds)
        encode-row (fn [row]
                     (mapv (fn [column ^Field field] (encode (nth column row) (.type field)))
                           columns
                           (fields ds)))]
    (mapv encode-row (range (aw/row-count ds)))))

(defn- assert-readable
  "Reads a dataset by rows, columns and cells. Rows are maps, which can't have two members of one name."
  [ds expected description]
  (if (distinct-names? (fields ds))
    (is (= expected (encode-rows ds)) (str description " by rows"))
    (is (thrown? IllegalArgumentException (encode-rows ds))
        (str description " has two columns or members of one name")))
  (when (every? #(distinct-names? [%]) (fields ds))
    (is (= expected (encode-columns ds)) (str description " by columns"))
    (is (= expected (encode-cells ds)) (str description " by cells"))))

(def ^:private samples
  "A folder of sample files, and the rows and type of each by its name, as the Rust library reads them."
  (delay (let [folder (programs/temp-folder)]
           (programs/run (programs/samples-program) "write" folder)
           {:folder folder
            :expected (programs/parse-json (slurp (io/file folder "expected.json")))})))

(deftest samples-are-read-by-rows-columns-and-cells
  (let [{:keys [folder expected]} @samples]
    (is (< 400 (count expected)))
    (doseq [[name sample] expected]
      (assert-readable (aw/open (io/file folder name)) (get sample "rows") name))))

(defn- copy-golden-files
  "Copies Arrow files and streams from subfolders to one folder, with the extensions that Arrowwood knows."
  [golden-folder target]
  (doseq [^File file (file-seq golden-folder)]
    (when-let [[_ stem extension] (re-matches #"(.*)\.(arrow_file|stream)" (.getName file))]
      (let [new-extension ({"arrow_file" ".arrow" "stream" ".stream"} extension)
            new-name (str (.getName (.getParentFile file)) "-" stem new-extension)]
        (io/copy file (io/file target new-name))))))

(deftest golden-files-are-read-by-rows-columns-and-cells
  (if-let [golden-folder (programs/golden-folder)]
    (let [folder (programs/temp-folder)]
      (copy-golden-files golden-folder folder)
      (let [lines (str/split-lines (programs/run (programs/samples-program) "read" folder))]
        (is (< 80 (count lines)))
        (doseq [line lines]
          (let [{:strs [file rows]} (programs/parse-json line)]
            (assert-readable (aw/open (io/file folder file)) rows file)))))
    (is (nil? (println "test-jvm: Arrow's golden files are not here")))))

;; ---- the table of docs/tasks/clojure.md ----

(defn- mappings
  "Returns the addresses at which a file is mapped in this process, as pairs of start and end."
  [^File file]
  (let [path (str (.toRealPath (.toPath file) (make-array LinkOption 0)))
        lines (Files/readAllLines (Path/of "/proc/self/maps" (make-array String 0)))]
    (for [line lines
          :when (str/ends-with? line path)]
      (let [addresses (first (str/split line #" "))]
        (mapv #(Long/parseUnsignedLong % 16) (str/split addresses #"-"))))))

(defn- buffers
  "Returns the buffers of a chunk and its children that aren't empty."
  [^Chunk chunk]
  (let [own-buffers (concat [(.values chunk) (.offsets chunk) (.sizes chunk) (.data chunk)]
                            (when (.isPresent (.validity chunk)) [(.get (.validity chunk))])
                            (.variadic chunk))]
    (concat (filter #(pos? (.byteSize ^MemorySegment %)) own-buffers)
            (mapcat buffers (.children chunk))
            (when (.isPresent (.dictionary chunk)) (buffers (.get (.dictionary chunk)))))))

(defn- in-place?
  "Returns true if all buffers of the first column lie in the mapped file."
  [file ds]
  (let [ranges (mappings file)
        mapped? (fn [^MemorySegment buffer]
                  (let [start (.address buffer)
                        end (+ start (.byteSize buffer))]
                    (some (fn [[low high]] (<= low start end high)) ranges)))]
    (is (seq ranges) (str file " isn't mapped"))
    (every? mapped? (mapcat buffers (aw/chunks (aw/column ds 0))))))

(defn- assert-writable [ds rows]
  (doseq [options [nil {:format :stream :compression :zstd}]]
    (let [file (io/file (programs/temp-folder) "written")]
      (aw/write ds file options)
      (is (= (aw/schema ds) (aw/schema (aw/open file))))
      (is (= rows (encode-rows (aw/open file))) (str "written " options)))))

(defn- can-append?
  "Appends rows to a table; returns false if the type is refused as documented."
  [ds rows append]
  (let [table (io/file (programs/temp-folder) "table")]
    (try
      (with-open [writer (aw/writer table (.schema (aw/java-dataset ds)))]
        (append writer)
        (aw/commit! writer))
      (is (= rows (encode-rows (aw/open table))) "appended to a table")
      true
      (catch ArrowwoodException$Unsupported _ false)
      (catch ArrowwoodException$InvalidArgument e
        (is (some #(str/includes? (ex-message e) %) ["dataset" "in batches"]) (ex-message e))
        false))))

(defn- code [& names]
  (str/join ", " (map #(str "`" % "`") names)))

(defn- values-name [type] (if (instance? Type$Int type) "integers" "text"))

(defn- view-layout? [layout] (= Type$Layout/VIEW layout))

(defn- family-name
  "Returns the name of a type in the table, where types that differ by unit or width share a line."
  [type]
  (condp instance? type
    Type$Int (if (.signed ^Type$Int type) "`int8` … `int64`" "`uint8` … `uint64`")
    Type$Floating (if (= 64 (.bits ^Type$Floating type)) (code "float64") (code "float16" "float32"))
    Type$Decimal "`decimal32` … `decimal256`"
    Type$Timestamp (if (.isPresent (.zone ^Type$Timestamp type)) (code "timestamp[…, zone]") (code "timestamp[…]"))
    Type$Time (code "time32" "time64")
    Type$Duration (code "duration")
    Type$Date (code "date32" "date64")
    Type$Interval (code "interval")
    Type$Text (if (view-layout? (.layout ^Type$Text type)) (code "utf8_view") (code "utf8" "large_utf8"))
    Type$Binary (if (view-layout? (.layout ^Type$Binary type)) (code "binary_view") (code "binary" "large_binary"))
    Type$FixedBinary (code "fixed_size_binary")
    Type$ListOf (if (#{Type$ListLayout/NORMAL Type$ListLayout/LARGE} (.layout ^Type$ListOf type))
                  (code "list" "large_list")
                  (code "list_view" "large_list_view"))
    Type$FixedList (code "fixed_size_list")
    Type$Struct (code "struct")
    Type$MapOf (code "map")
    Type$Union (code "sparse_union" "dense_union")
    Type$Dictionary (str (code "dictionary") ", of " (values-name (.values ^Type$Dictionary type)))
    Type$RunEndEncoded (str (code "run_end_encoded") ", of "
                            (values-name (.type (.values ^Type$RunEndEncoded type))))
    (code type)))

(defn- class-name
  "Returns what a value of a type is in Clojure, as in the table."
  [type value]
  (cond
    (instance? Type$Interval type) "`{:months … :days … :nanoseconds …}`"
    (instance? Type$Union type) "`[:member value]`"
    (instance? Type$MapOf type) "`[[key value] …]`"
    (instance? Type$Struct type) "`{:member value …}`"
    (or (int? value) (instance? BigInt value)) (if (and (instance? Type$Int type) (not (.signed ^Type$Int type)))
                                                 (code "Long" "BigInt")
                                                 (code "Long"))
    (bytes? value) (code "byte[]")
    (vector? value) "vector"
    :else (code (.getSimpleName (class value)))))

(defn- table-line [file sample]
  (let [ds (aw/open file)
        rows (get sample "rows")
        column-type (.type ^Field (first (fields ds)))
        type (value-type column-type)
        values (remove nil? (aw/column ds 0))
        classes (distinct (map #(class-name type %) values))
        mark #(if % "✓" "–")]
    (assert-readable ds rows file)
    (assert-writable ds rows)
    (str/join " | " [(family-name column-type)
                     (if (seq classes) (str/join ", " classes) "`nil`")
                     (mark (in-place? file ds))
                     (mark true)
                     (mark (can-append? ds rows #(aw/append! % ds)))
                     (mark (can-append? ds rows #(aw/append! % (seq ds))))])))

(defn- type?
  "Returns true if a sample is named for a type; others are named for the shape of their table."
  [sample-name]
  (try
    (boolean (Schema/parse (str "c: " sample-name)))
    (catch IllegalArgumentException _ false)))

(deftest table-of-types-in-the-docs-is-right
  (let [{:keys [folder expected]} @samples
        lines (distinct (for [[name sample] expected
                              :when (and (str/ends-with? name "_plain.arrow") (type? (get sample "sample")))]
                          (table-line (io/file folder name) sample)))
        families (map #(first (str/split % #" \| ")) lines)
        table (str/join "\n" (concat ["| Arrow | Clojure | read, in place | written | appended as a dataset | as maps |"
                                      "|---|---|---|---|---|---|"]
                                     (map #(str "| " % " |") (sort lines))))
        page (slurp (io/file (System/getProperty "arrowwood.docs") "tasks" "clojure.md"))]
    (is (< 25 (count lines)))
    (is (apply distinct? families) "types of one line differ")
    (is (str/includes? page table) (str "docs/tasks/clojure.md lacks this table:\n" table))))
